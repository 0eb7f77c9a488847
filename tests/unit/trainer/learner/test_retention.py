"""Kept files: the newest checkpoints, the best, and a limited number of bytes of rollouts."""

from pathlib import Path

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.runs import run_lock
from assay_shared.runs.run_folder import RunFolder, RunStatus, append_line
from assay_trainer.learner import checkpoint, retention
from assay_trainer.rescore.stored_answers import read_stored
from assay_trainer.rollouts.rollout_log import DISCARDED, DISCARDED_OLDER, append_rollout
from tests.support.fakes import make_scored_group


def make_checkpoint(stage: Path, step: int, pass_rate: float | None = None) -> None:
    folder = checkpoint.folder_of(stage, step)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"x" * 1000)
    checkpoint.complete(stage, step, pass_rate=pass_rate)


def steps(stage: Path) -> list[int]:
    return sorted(checkpoint.step_of(folder) for folder in stage.glob("checkpoint-*"))


@pytest.mark.parametrize(
    ("rates", "keep", "keep_best", "left"),
    [
        ([0.1, 0.9, 0.2, 0.3], 2, True, [2, 3, 4]),
        ([0.1, 0.9, 0.2, 0.3], 2, False, [3, 4]),
        ([0.1, 0.2, 0.2, 0.9], 2, True, [3, 4]),
        ([0.5, 0.5, 0.2, 0.3], 1, True, [2, 4]),
        ([None, None, None, None], 1, True, [4]),
        ([0.1], 3, True, [1]),
        ([None, None, None], 5, False, [1, 2, 3]),
    ],
)
def test_the_newest_checkpoints_and_the_best_stay(
    tmp_path: Path, rates: list[float | None], keep: int, keep_best: bool, left: list[int]
) -> None:
    for step, rate in enumerate(rates, start=1):
        make_checkpoint(tmp_path, step, rate)
    retention.forget_checkpoints(tmp_path, keep, keep_best=keep_best)
    assert steps(tmp_path) == left


def test_what_is_not_whole_goes_but_for_the_newest(tmp_path: Path) -> None:
    """The newest may be unfinished; an older half is left of a kill."""
    for step in (8, 9, 10):
        make_checkpoint(tmp_path, step)
    (tmp_path / "checkpoint-7").mkdir()
    (tmp_path / "checkpoint-11").mkdir()
    retention.forget_checkpoints(tmp_path, 2, keep_best=True)
    assert steps(tmp_path) == [9, 10, 11]
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found[0].name == "checkpoint-10"


def test_rollouts_stay_below_their_cap_and_the_newest_are_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    groups = [make_scored_group(f"g{i:03}", 1.0, 0.0) for i in range(100)]
    max_bytes = 20 * (len(groups[0].model_dump_json()) + 40)
    for step, group in enumerate(groups):
        append_rollout(folder.rollouts, group, step, max_bytes)
        size = sum(file.stat().st_size for file in tmp_path.glob("rollouts*"))
        assert size <= max_bytes
    keys = [group.key for group in read_stored(folder).groups]
    assert keys == [f"g{i:03}" for i in range(100 - len(keys), 100)]
    assert len(keys) >= 10


def make_run(runs: Path, name: str, state: str) -> RunFolder:
    run = RunFolder.create(runs / name)
    run.config.write_text("{}")
    run.write_status(RunStatus(state=state))
    for name in (run.rollouts.name, DISCARDED, DISCARDED_OLDER):
        append_line(run.path / name, "{}")
    for step, rate in ((1, 0.9), (2, 0.1), (3, 0.2)):
        make_checkpoint(run.checkpoints / "grpo", step, rate)
        make_checkpoint(run.checkpoints / "sft", step)
        (run.policies / f"v{step:06d}").mkdir(parents=True)
    return run


def left(run: RunFolder) -> tuple[list[int], list[int], list[str], bool]:
    versions = sorted(folder.name for folder in run.policies.glob("v*"))
    stages = run.checkpoints / "grpo", run.checkpoints / "sft"
    return steps(stages[0]), steps(stages[1]), versions, run.rollouts.exists()


ALL = ([1, 2, 3], [1, 2, 3], ["v000001", "v000002", "v000003"], True)


def test_pruning_leaves_what_a_resume_a_reader_and_an_engine_need(tmp_path: Path) -> None:
    stopped, finished, running = (
        make_run(tmp_path, name, name) for name in ("stopped", "finished", "running")
    )

    def prune(**changes: object) -> list[retention.Pruned]:
        values = {"keep": 1, "rollouts": False, "dry_run": False}
        return retention.prune(tmp_path, **values | changes)  # type: ignore[arg-type]

    with run_lock.held(running.path):
        planned = prune(dry_run=True)
        assert [left(run) for run in (stopped, finished, running)] == [ALL] * 3
        assert [(one.name, one.num_bytes) for one in prune()] == [
            (one.name, one.num_bytes) for one in planned
        ]
    assert left(stopped) == ([1, 3], [3], ALL[2], True)
    assert left(finished) == ([1], [], ["v000003"], True)
    assert left(running) == ALL, "a process holds it"
    assert [pruned.num_bytes > 3000 for pruned in planned] == [True, False, True]
    assert "process" in planned[1].spared_because
    prune(rollouts=True)
    assert left(finished) == ([1], [], ["v000003"], False)
    assert [(finished.path / name).exists() for name in (DISCARDED, DISCARDED_OLDER)] == [False] * 2
    assert left(stopped)[3] is True
    assert (stopped.path / DISCARDED).exists()
    assert left(running)[0] == [1, 3], "it says that it runs, and no process holds it"
    with pytest.raises(InvalidInput, match="keep: at least 1"):
        prune(keep=0)


def test_pruning_keeps_the_last_good_checkpoint_and_not_a_damaged_newer_one(tmp_path: Path) -> None:
    run = make_run(tmp_path, "failed", "failed")
    stage = run.checkpoints / "grpo"
    weights = checkpoint.folder_of(stage, 3) / "model.safetensors"
    weights.write_bytes(b"y" * 1000)
    values = {"keep": 1, "rollouts": False, "dry_run": False}
    retention.prune(tmp_path, **values)  # type: ignore[arg-type]
    assert steps(stage) == [1, 2], "the best and the newest good one"
    (checkpoint.folder_of(stage, 1) / "model.safetensors").unlink()
    (checkpoint.folder_of(stage, 2) / "assay.json").write_text("{")
    (pruned,) = retention.prune(tmp_path, **values)  # type: ignore[arg-type]
    assert "is what was written" in pruned.spared_because
    assert steps(stage) == [1, 2]
