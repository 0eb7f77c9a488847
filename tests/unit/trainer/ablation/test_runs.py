"""The runs of an ablation: in lanes, resumed, and stopped together."""

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.runtime.processes import spawn
from assay_trainer.ablation.runs import ArmFailed, RunOrder, check_lanes, read_lane, run_all
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop, Stopped
from tests.unit.trainer.ablation.decomposition.conftest import run_config

#: Stands in for `assay train --resume FOLDER`: writes when it began and ended, and its lane.
TRAIN = """
import json, os, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
told = {"lane": os.environ.get("LANE"), "began": time.time()}
time.sleep(float(os.environ.get("TAKES", "0.5")))
if "bad" in folder.name:
    sys.exit("planted failure")
if "unusable" in folder.name:
    print("error: planted refusal")
    sys.exit(2)
told["ended"] = time.time()
(folder / "told.json").write_text(json.dumps(told))
(folder / "status.json").write_text('{"state": "finished"}')
"""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Runs are processes of the script; the folders in the order of their starts."""
    begun: list[Path] = []

    def start(command: tuple[str, ...], *, log: Path, environment: dict[str, str]) -> Any:
        folder = Path(command[command.index("--resume") + 1])
        begun.append(folder)
        script = (sys.executable, "-c", TRAIN, str(folder))
        return spawn(script, log=log, environment=environment)

    monkeypatch.setattr("assay_trainer.ablation.runs.spawn", start)
    return begun


def orders(folder: Path, *names: str) -> list[RunOrder]:
    return [RunOrder(folder / name, run_config(), name.partition("-")[0]) for name in names]


def finish(some: list[RunOrder], lanes: list[dict[str, str]]) -> dict[str, str]:
    return run_all(some, lanes, Stop(), lambda folder, status: None)


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


@pytest.mark.slow
def test_lanes_work_at_the_same_time_and_each_has_its_environment(
    trained: list[Path], tmp_path: Path
) -> None:
    some = orders(tmp_path, "a", "b", "c")
    finish(some, [{"LANE": "1", "TAKES": "1"}, {"LANE": "2", "TAKES": "1"}])
    first, second, third = (told(one.folder) for one in some)
    assert {first["lane"], second["lane"]} == {"1", "2"}
    assert second["began"] < first["ended"]
    assert third["began"] > min(first["ended"], second["ended"])


@pytest.mark.slow
def test_a_finished_run_is_not_repeated_and_a_half_made_one_begins_afresh(
    trained: list[Path], tmp_path: Path
) -> None:
    some = orders(tmp_path, "a", "b")
    done = RunFolder.create(some[0].folder)
    done.config.write_text("{}")
    done.write_status(RunStatus(state="finished"))
    some[1].folder.mkdir()
    (some[1].folder / ".config.json.partial").write_text("{")
    finish(some, [{}])
    assert trained == [some[1].folder]
    assert RunFolder.open(some[1].folder)


@pytest.mark.slow
def test_a_failed_run_ends_the_others_with_its_reason(trained: list[Path], tmp_path: Path) -> None:
    some = orders(tmp_path, "bad", "long")
    started = time.monotonic()
    with pytest.raises(ArmFailed, match="planted failure") as failed:
        finish(some, [{}, {"TAKES": "60"}])
    assert time.monotonic() - started < 30
    assert "--resume" in str(failed.value.hint)


@pytest.mark.slow
def test_an_arm_that_cannot_run_leaves_the_other_arms_to_run(
    trained: list[Path], tmp_path: Path
) -> None:
    some = orders(tmp_path, "unusable-s1", "unusable-s2", "good-s1", "good-s2")
    why = "run unusable-s1 cannot finish as it is: error: planted refusal"
    assert finish(some, [{"TAKES": "0.1"}]) == {"unusable": why}
    assert [one.name for one in trained] == ["unusable-s1", "good-s1", "good-s2"]


@pytest.mark.slow
def test_a_run_that_can_never_finish_ends_with_the_status_of_unusable_input(
    tmp_path: Path,
) -> None:
    """The real command, on a run file without a policy."""
    (order,) = orders(tmp_path, "arm-s1")
    create_run(order.folder, order.config)
    (order.folder / "config.json").write_text('{"config": {}}')
    found = finish([order], [{}])
    assert found["arm"].startswith("run arm-s1 cannot finish as it is: error: policy: missing")


@pytest.mark.slow
def test_a_stop_ends_the_runs_at_work(trained: list[Path], tmp_path: Path) -> None:
    stop = Stop()

    def ask(folder: Path, status: RunStatus) -> None:
        stop.ask()

    with pytest.raises(Stopped):
        run_all(orders(tmp_path, "a"), [{"TAKES": "60"}], stop, ask)


@pytest.mark.parametrize(
    ("lanes", "is_refused"),
    [
        ([{}], False),
        ([{}, {"ASSAY_INFERENCE_URL": "http://a:1"}], False),
        ([{}, {}], True),
        ([{"ASSAY_INFERENCE_URL": "http://127.0.0.1:8001/"}, {"CUDA_VISIBLE_DEVICES": "1"}], True),
    ],
)
def test_two_lanes_may_not_publish_to_one_inference(
    lanes: list[dict[str, str]], is_refused: bool
) -> None:
    refused = pytest.raises(InvalidInput, match="inference service http://127.0.0.1:8001")
    with refused if is_refused else nullcontext():
        check_lanes(lanes, "http://localhost:8001")


def test_a_lane_is_a_file_of_variables(tmp_path: Path) -> None:
    file = tmp_path / "lane.env"
    file.write_text("# services\nASSAY_INFERENCE_URL=http://a:1\n\nCUDA_VISIBLE_DEVICES=1\n")
    assert read_lane(file) == {"ASSAY_INFERENCE_URL": "http://a:1", "CUDA_VISIBLE_DEVICES": "1"}
    file.write_text("ASSAY\n")
    with pytest.raises(InvalidInput, match="not NAME=VALUE"):
        read_lane(file)
    with pytest.raises(InvalidInput, match="no file"):
        read_lane(tmp_path / "none")
