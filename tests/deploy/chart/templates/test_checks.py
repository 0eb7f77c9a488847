"""The pods of `helm test`, and their scripts against real services."""

import os
import socket
import subprocess
import sys

import pytest
from fastapi import FastAPI

from assay_reward.app import create_app
from assay_reward.settings import RewardSettings
from tests.conftest import SandboxProcess, Serve
from tests.deploy.chart.test_policies import within
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
    "tests/closed.yaml": [
        OFF,
        at("networkPolicy.enabled", False),
        {name: {"enabled": False} for name in ("inference", "reward", "trainer")},
    ],
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


def test_what_has_no_replica_is_not_asked() -> None:
    none = {"inference": {"replicas": 0}, "trainer": {"replicas": 0}}
    assert environment(pod("ready", none))["URLS"].split() == ["http://assay-reward:8004/ready"]
    zero = {"inference": {"autoscaling": {"enabled": True}}, "trainer": {"enabled": False}}
    assert environment(pod("ready", zero))["URLS"].split()[0].endswith(":8001/health")
    rendered = render(at("sandbox.replicas", 0))
    assert rendered.by_template["tests/score.yaml"] == []


def test_the_pod_that_stands_for_a_sandbox_is_no_endpoint_of_it() -> None:
    labels = pod("sandbox-closed")["metadata"]["labels"]
    assert labels["assay/network"] == "sandbox"
    selector = render().one("sandbox/service.yaml")["spec"]["selector"]
    assert not selector.items() <= labels.items()
    assert "169.254.169.254:80" in environment(pod("sandbox-closed"))["OUTSIDE"].split()
    server = "$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
    assert environment(pod("sandbox-closed"))["ADDRESSES"] == server


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


def test_closed_asks_first_for_what_it_may_reach() -> None:
    """Each control is an edge that the policies allow, and each address is none."""
    found = environment(pod("closed"))
    edges = [edge for edge in within(render()) if edge.sender == "test-closed"]
    may = {f"{edge.receiver}:{edge.port}" for edge in edges}
    controls = found["REACHABLE"].replace("assay-", "").replace("inference", "engine")
    assert set(controls.split()) == may
    assert "assay-sandbox:8002" in found["ADDRESSES"].split()
    job: Values = {"trainer": {"kind": "Job", "run": {"file": {"name": "a"}}}}
    assert "trainer" not in environment(pod("closed", job))["REACHABLE"]
    none = environment(pod("closed", at("reward.replicas", 0)))
    assert "reward" not in none["REACHABLE"]


def test_closed_passes_where_nothing_answers_and_names_what_does() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    shut = f"127.0.0.1:{silent.getsockname()[1]}"
    silent.close()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        open_one = f"127.0.0.1:{listener.getsockname()[1]}"
        for name in ("ADDRESSES", "OUTSIDE"):
            others = {"ADDRESSES": shut, "REACHABLE": open_one}
            found = run("closed", **(others | {name: open_one}), WAIT_S="1")
            assert found.returncode == 1
            assert f"no policy allows it: {open_one}" in found.stderr
        closed = run("closed", ADDRESSES=shut, OUTSIDE=shut, REACHABLE=open_one, WAIT_S="1")
        assert closed.returncode == 0, closed.stderr
        assert f"by a firewall, which is not told apart: {shut}" in closed.stdout


@pytest.mark.parametrize("name", ["nobody listens", "no name server"])
def test_closed_says_when_nothing_can_be_concluded(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        variables = {"ADDRESSES": "127.0.0.1:1", "REACHABLE": f"127.0.0.1:{port}"} | (
            {"REACHABLE": "127.0.0.1:1"}
            if name == "nobody listens"
            else {"ADDRESSES": "nowhere.invalid:1"}
        )
        found = run("closed", **variables, WAIT_S="1")
    assert found.returncode == 2
    assert "nothing can be concluded" in found.stderr


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
