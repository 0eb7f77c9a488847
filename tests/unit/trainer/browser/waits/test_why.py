"""Who waits for whom: runs in each state, and services and queues with planted faults."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay_shared.doctor.findings import CheckResult, CheckStatus
from assay_shared.doctor.queue import QueueDepth
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.runs.run_lock import held
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.browser.opening import open_for_reading
from assay_trainer.browser.waits.live import MeshState, look
from assay_trainer.browser.waits.wait import duration_words
from assay_trainer.browser.waits.why import why
from tests.support.browser.stored_runs import make_run
from tests.unit.trainer.evaluation.test_report import make_step

FINE = CheckResult(CheckStatus.OK, "queue", "Redis answers")
Make = Callable[..., RunFolder]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = make_run(tmp_path / "a")
    folder.record("stage_started", stage="grpo", num_steps=9)
    for step in (1, 2, 3):
        times = {"step_s": 4.0, "rollouts_s": 3.0, "update_s": 0.5, "publish_s": 0.25}
        folder.record("step", **make_step(step, **times).model_dump(mode="json"))
    return folder


@pytest.fixture
def running(run: RunFolder) -> Iterator[RunFolder]:
    """Yield the run in the hands of this process."""
    run.write_status(RunStatus(state="running", stage="grpo", step=3, num_steps=9))
    with held(run.path):
        yield run


def told(folder: RunFolder, state: MeshState, after_s: float = 1.0) -> list[str]:
    now = time.time() + after_s
    opened = open_for_reading(folder, folder.path.parent / "index")
    return [one.told(now) for one in why(opened, ServiceSettings(), now, lambda _: state)]


def test_a_run_says_where_its_time_goes(running: RunFolder) -> None:
    lines = told(running, MeshState([FINE], QueueDepth(0, 5)))
    assert (
        "The trainer is in the step after grpo 3/9, and a step usually takes 4.0 s (since "
        in (lines[0])
    )
    assert lines[1].startswith("The trainer waits for the workers: they play 5 groups")
    assert "spends most on rollouts: rollouts 75%, updates 12%" in lines[2]


@pytest.mark.parametrize(
    ("depth", "words"),
    [
        (QueueDepth(7, 0), "7 groups wait for workers, and no worker has taken any (since "),
        (QueueDepth(7, 2), "7 groups wait for workers, who play 2"),
        (QueueDepth(0, 0), "The workers wait for the trainer: no group is in flight"),
    ],
)
def test_the_queue_says_who_waits(running: RunFolder, depth: QueueDepth, words: str) -> None:
    lines = told(running, MeshState([FINE], depth), 100.0)
    assert any(line.startswith(words) for line in lines), lines


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("inference", "The workers wait for inference: no answer at x (since "),
        ("sandbox", "Reward waits for the sandbox: no answer at x (since "),
        ("workers", "The queue waits for workers: no answer at x (since "),
        ("queue", "The trainer waits for Redis: no answer at x (since "),
    ],
)
def test_a_part_that_is_down_is_waited_for(running: RunFolder, check: str, words: str) -> None:
    fault = CheckResult(CheckStatus.FAIL, check, "no answer at x", "start it (assay up)")
    lines = told(running, MeshState([FINE, fault], None), 100.0)
    assert lines[1].startswith(words)
    assert lines[1].endswith(", 1 min 40 s); start it (assay up).")


def test_a_stall_without_a_fault_is_told_and_a_usual_step_is_none(running: RunFolder) -> None:
    state = MeshState([FINE], QueueDepth(0, 3))
    stall = "The step takes much longer than usual, and all services answer"
    assert any(line.startswith(stall) for line in told(running, state, 100.0))
    assert not any(line.startswith(stall) for line in told(running, state, 30.0))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("finished", "Nobody waits: the run is finished."),
        ("failed", "The run failed in grpo 3/9 and waits for a resume: no space (since "),
        ("queued", "The run waits until the trainer begins it"),
    ],
)
def test_a_run_that_is_not_trained_asks_no_service(run: RunFolder, state: str, words: str) -> None:
    run.write_status(RunStatus(state=state, stage="grpo", step=3, num_steps=9, message="no space."))

    def refused(_: ServiceSettings) -> MeshState:
        raise AssertionError("asked")

    now = time.time()
    opened = open_for_reading(run, run.path.parent / "index")
    found = [one.told(now) for one in why(opened, ServiceSettings(), now, refused)]
    assert found[0].startswith(words)
    if state == "failed":
        assert f"`assay train --resume {run.path}`" in found[0]


def test_services_and_a_queue_that_are_down_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INFERENCE", "SANDBOX", "JUDGE", "REWARD", "TRAINER"):
        monkeypatch.setenv(f"ASSAY_{name}_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ASSAY_REDIS_URL", "redis://127.0.0.1:9/0")
    state = look(ServiceSettings())
    assert state.depth is None
    failed = {one.check for one in state.checks if one.status is CheckStatus.FAIL}
    assert {"inference", "sandbox", "judge", "reward", "queue"} <= failed


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.26, "0.3 s"), (59.0, "59 s"), (60.0, "1 min"), (3700.0, "1 h 1 min"), (90000.0, "1 d 1 h")],
)
def test_durations_have_two_units(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("run_finished", {"report": "r"}, "Nobody waits: the run is finished."),
        ("run_failed", {"message": "no space"}, "its last word is: no space"),
        (None, {}, "status.json is missing; events.jsonl has 3 steps of GRPO"),
    ],
)
def test_a_run_without_status_json_is_told_by_its_events(
    run: RunFolder, kind: str | None, data: dict[str, str], words: str
) -> None:
    (run.path / "status.json").unlink(missing_ok=True)
    if kind is not None:
        run.record(kind, **data)
    lines = told(run, MeshState([FINE], QueueDepth(0, 0)))
    assert words in lines[0]
    assert not any("waits until the trainer begins it" in line for line in lines)
