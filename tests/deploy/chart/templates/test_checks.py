"""The pods of `helm test`, and their scripts against real services."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI

from assay_reward.app import create_app
from assay_reward.settings import RewardSettings
from tests.conftest import SandboxProcess, Serve
from tests.support.chart.rendering import (
    CHART,
    Manifest,
    Values,
    at,
    container,
    environment,
    render,
)

OFF = at("tests.enabled", False)

#: For each template, values under which it renders nothing.
DISABLED: dict[str, list[Values]] = {
    "tests/serviceaccount.yaml": [OFF],
    "tests/ready.yaml": [
        OFF,
        {name: {"enabled": False} for name in ("inference", "reward", "trainer")},
    ],
    "tests/score.yaml": [OFF, at("reward.enabled", False), at("sandbox.enabled", False)],
    "tests/closed.yaml": [OFF, at("networkPolicy.enabled", False)],
    "tests/sandbox-closed.yaml": [
        OFF,
        at("networkPolicy.enabled", False),
        at("sandbox.enabled", False),
    ],
}


@pytest.mark.parametrize(
    ("template", "values"), [(name, item) for name, items in DISABLED.items() for item in items]
)
def test_it_renders_nothing_when_disabled(template: str, values: Values) -> None:
    assert render(values).by_template[template] == []


def pod(name: str, values: Values | None = None) -> Manifest:
    return render(values).one(f"tests/{name}.yaml")


@pytest.mark.parametrize("name", ["ready", "score", "closed", "sandbox-closed"])
def test_a_pod_is_a_hook_that_runs_the_script_once(name: str) -> None:
    found = pod(name)
    assert found["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert found["spec"]["restartPolicy"] == "Never"
    script = CHART / "files" / "checks" / f"{name.removeprefix('sandbox-')}.py"
    assert container(found)["command"][2].strip() == script.read_text().strip()


def test_ready_asks_who_may_be_asked() -> None:
    urls = environment(pod("ready"))["URLS"].split()
    assert urls == [
        "http://assay-inference:8001/health",
        "http://assay-reward:8004/ready",
        "http://assay-trainer:8005/ready",
    ]
    served = {"trainer": {"enabled": False}, "inference": {"model": {"folder": "qwen"}}}
    urls = environment(pod("ready", served))["URLS"].split()
    assert urls[0] == "http://assay-inference:8001/ready"


def test_the_pod_that_stands_for_a_sandbox_is_no_endpoint_of_it() -> None:
    labels = pod("sandbox-closed")["metadata"]["labels"]
    assert labels["assay/network"] == "sandbox"
    selector = render().one("sandbox/service.yaml")["spec"]["selector"]
    assert not selector.items() <= labels.items()
    assert "169.254.169.254:80" in environment(pod("sandbox-closed"))["ADDRESSES"].split()


def run(name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A pod's own script, here."""
    return subprocess.run(
        [sys.executable, *container(pod(name))["command"][1:]],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_ready_passes_where_all_answer_and_names_the_one_that_does_not(serve: Serve) -> None:
    app = FastAPI()

    @app.get("/ready")
    def ready() -> str:
        return "yes"

    url = serve(app)
    assert run("ready", URLS=f"{url}/ready", WITHIN_S="1").returncode == 0
    missing = run("ready", URLS=f"{url}/ready {url}/nowhere", WITHIN_S="0.1")
    assert missing.returncode == 1
    assert f"{url}/nowhere: HTTP Error 404" in missing.stderr


def test_closed_passes_where_nothing_answers_and_names_what_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = run("closed", ADDRESSES=f"127.0.0.1:{port}", WAIT_S="1")
        assert found.returncode == 1
        assert f"no policy allows it: 127.0.0.1:{port}" in found.stderr
    closed = run("closed", ADDRESSES=f"127.0.0.1:{port} nowhere.invalid:1", WAIT_S="1")
    assert closed.returncode == 0, closed.stderr


def test_score_passes_against_real_services_and_not_without_a_sandbox(
    serve: Serve, sandbox_process: SandboxProcess
) -> None:
    good = serve(create_app(RewardSettings(sandbox_url=sandbox_process.url)))
    passed = run("score", ASSAY_REWARD_URL=good)
    assert passed.returncode == 0, passed.stderr
    nobody = RewardSettings(sandbox_url="http://127.0.0.1:9", reward_retry_budget_s=0.1)
    failed = run("score", ASSAY_REWARD_URL=serve(create_app(nobody)))
    assert failed.returncode == 1
    assert "not the outcomes" in failed.stderr


def test_the_download_leaves_a_whole_folder_and_fetches_nothing_twice(tmp_path: Path) -> None:
    """The job's script, with a module in place of the hub's client."""
    (tmp_path / "huggingface_hub.py").write_text(
        "from pathlib import Path\n"
        "def snapshot_download(repository, *, revision, local_dir, max_workers):\n"
        "    Path(local_dir).mkdir()\n"
        "    (Path(local_dir) / 'config.json').write_text(f'{repository}@{revision}')\n"
    )
    script = (CHART / "files" / "download_model.py").read_text()
    variables = {
        "PYTHONPATH": str(tmp_path),
        "REPOSITORY": "owner/model",
        "REVISION": "main",
        "FOLDER": str(tmp_path / "model"),
    }

    def fetch() -> str:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    assert fetch().endswith("is there now\n")
    assert (tmp_path / "model" / "config.json").read_text() == "owner/model@main"
    assert fetch().endswith("is there already\n")
    assert [path.name for path in tmp_path.glob("model*")] == ["model"]
