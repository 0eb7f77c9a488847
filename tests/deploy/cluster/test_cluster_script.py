"""The script of `make cluster-test`, without a cluster: it refuses clearly, and plays in order.

No cluster was at hand: kind, helm and kubectl are stand-ins here, which note each call. The run's
state is asked of the real script against a folder and a server.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from assay_trainer.config import RunConfig
from tests.deploy.cluster import run_state
from tests.support.chart.kubernetes_schemas import NEWEST, check_object
from tests.support.chart.rendering import CHART, EXAMPLES, check, example, merge, render

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PAGE = ROOT / "docs" / "deploy_cluster.md"
TOOLS = ("docker", "kind", "kubectl", "helm")
#: Answers as a cluster would: the run is a step further each time.
STAND_IN = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
case "$(basename "$0") $*" in
    "kind get clusters") ;;
    *"exec --stdin"*stop*) echo stopped > "$CALLS.state" ;;&
    *"exec --stdin"*)
        step=$(($(cat "$CALLS.step" 2>/dev/null || echo 0) + 1))
        echo $step > "$CALLS.step"
        echo "$(cat "$CALLS.state" 2>/dev/null || echo running) $step 0 0 0" ;;
    *containerRuntimeVersion*) echo "${RUNTIME:-containerd://2.1.1}" ;;
    *spec.nodeName*) echo assay-test-worker2 ;;
    *"get networkpolicy"*) printf 'policy\\n%.0s' 1 2 3 4 5 6 7 8; rm -f "$CALLS.open" ;;
    *"delete networkpolicy"*) touch "$CALLS.open" ;;
    "helm "*" test "*) [ ! -e "$CALLS.open" ] || [ "${ENFORCED:-1}" = 0 ] ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Return the variables of a machine with stand-ins for all tools."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for tool in TOOLS:
        (binaries / tool).write_text(STAND_IN)
        (binaries / tool).chmod(0o755)
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    return {
        "PATH": f"{binaries}:/usr/bin:/bin",
        "CALLS": str(tmp_path / "calls"),
        "PAGE": str(page),
        "NOTICES_S": "0",
        "SETTLE_S": "0",
        "POLL_S": "0.05",
        "TMPDIR": str(tmp_path),
    }


def run(variables: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/bash", str(HERE / "run.sh")],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_missing_is_named(machine: dict[str, str], tool: str) -> None:
    folder = Path(machine["PATH"].partition(":")[0])
    for name in ("bash", "timeout", "awk", "openssl", "date", "dirname"):
        (folder / name).symlink_to(shutil.which(name) or name)
    (folder / tool).unlink()
    done = run(machine | {"PATH": str(folder)})
    assert done.returncode == 2
    assert done.stderr.strip() == f"cluster-test: not found on the path: {tool}"
    assert not Path(machine["CALLS"]).exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("NODE_IMAGE", "kindest/node:v1.32.5", "Kubernetes 1.33 or newer"),
        ("RUNTIME", "containerd://1.7.27 containerd://2.1.1", "containerd 2 is needed"),
        ("GPU", "1", "nvidia-smi finds no GPU"),
    ],
)
def test_a_cluster_that_cannot_do_is_refused(
    machine: dict[str, str], variable: str, value: str, says: str
) -> None:
    done = run(machine | {variable: value})
    assert done.returncode == 2
    assert says in done.stderr


def test_it_plays_all_of_it_in_order_and_writes_the_table(machine: dict[str, str]) -> None:
    done = run(machine)
    assert done.returncode == 0, done.stderr
    calls = Path(machine["CALLS"]).read_text()
    order = [
        *("kind create cluster", "calico.yaml", "kind load docker-image", "create secret"),
        *("helm .* install assay", "helm .* test assay", "delete networkpolicy --all"),
        *("helm .* test assay", "helm .* upgrade assay", "drain assay-test-worker2"),
        *("upgrade .*image.tag=upgraded", "rollback assay", "docker kill", "delete node"),
        *("docker start", "kind delete cluster"),
    ]
    assert re.search(".*".join(order), calls, re.DOTALL), calls
    table = Path(machine["PAGE"]).read_text()
    for row in ("node drained", "upgrade", "rollback", "spot reclaim, 0 s of notice"):
        assert re.search(
            rf"^\| {row} \| \d+ \| \d+ \| 0 \| resumed by the trainer \|$", table, re.M
        )
    assert "| helm test, policies deleted |" in table
    assert "not seen" not in table.partition("cluster-test: rows")[2].partition("end -->")[0]


def test_policies_that_nobody_enforces_fail_it(machine: dict[str, str]) -> None:
    done = run(machine | {"ENFORCED": "0"})
    assert done.returncode == 1
    assert "helm test passes without any policy" in done.stderr
    assert "kind delete cluster" in Path(machine["CALLS"]).read_text()
    assert Path(machine["PAGE"]).read_text() == PAGE.read_text()


def test_every_command_of_a_cluster_has_a_limit() -> None:
    """Tools are called by the helpers alone, each of which is a `within`."""
    text = (HERE / "lib.sh").read_text() + (HERE / "run.sh").read_text()
    called = re.findall(
        r"^ *(?:! )?(.*?)\b(?:kubectl|helm|kind|docker) [-a-z\"$]", text, re.MULTILINE
    )
    calls = [
        before for before in called if not re.search(r"#|say|refuse|row|for tool|IMAGE=", before)
    ]
    assert len(calls) == 9
    assert [before for before in calls if "within" not in before] == []
    assert "while true" not in text


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    files = [str(path.relative_to(ROOT)) for path in (HERE / "run.sh", HERE / "lib.sh")]
    done = subprocess.run(
        ["shellcheck", "--external-sources", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == ""


@pytest.mark.parametrize("files", [("values.yaml",), ("values.yaml", "values-gpu.yaml")])
def test_its_values_are_valid(files: tuple[str, ...]) -> None:
    values = example("values-kind-cpu.yaml")
    for file in files:
        values = merge(values, yaml.safe_load((HERE / file).read_text()))
    rendered = render(values)
    check(rendered)
    trainer = dict(rendered.pods())["assay-trainer"]["spec"]
    assert trainer["nodeSelector"] == {"assay-test": "run"}, "two nodes have this label"
    assert "affinity" not in trainer, "it may move without the engine"
    for volume in yaml.safe_load_all((HERE / "volumes.yaml").read_text()):
        assert check_object(volume, NEWEST) is None
    assert (CHART / EXAMPLES[0]).exists()


class _Trainer(BaseHTTPRequestHandler):
    """One run, as the trainer shows it; requests are noted in `asked`."""

    asked: list[str]

    def _answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        length = int(self.headers.get("content-length") or 0)
        if length:
            RunConfig.model_validate(json.loads(self.rfile.read(length))["config"])
        body = json.dumps({"name": "a", "status": {"state": "running", "step": 3}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def trainer() -> Iterator[tuple[int, list[str]]]:
    """Yield the port of a stand-in for the trainer, and what it was asked."""
    _Trainer.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Trainer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, _Trainer.asked
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()


def test_the_state_counts_steps_and_groups(tmp_path: Path, trainer: tuple[int, list[str]]) -> None:
    port, asked = trainer
    folder = tmp_path / "a"
    folder.mkdir()
    steps = [{"kind": "step", "data": {"step": step}} for step in (1, 2, 2, 4)]
    text = "\n".join(map(json.dumps, [{"kind": "run_started"}, *steps]))
    (folder / "events.jsonl").write_text(text + '\n{"kind": "step", "da')
    groups = [("g1", False), ("g2", True), ("g2", False), ("g3", False), ("g3", False)]
    (folder / "rollouts.jsonl").write_text(
        "".join(
            json.dumps({"group": {"key": key}, "superseded": superseded}) + "\n"
            for key, superseded in groups
        )
    )
    script = (HERE / "run_state.py").read_text().replace(":8005", f":{port}")
    done = subprocess.run(
        [sys.executable, "-", "a", "start"],
        input=script,
        env=os.environ | {"ASSAY_RUNS": str(tmp_path), "ASSAY_TRAINER_TOKEN": "t"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "running 4 1 1 1\n", done.stderr
    assert asked == ["POST /v1/runs", "GET /v1/runs/a"]
    assert run_state.lines(folder / "none.jsonl") == []
