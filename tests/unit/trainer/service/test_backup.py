"""Backups: whole or not there, compared when they are put back, taken during a run."""

import shutil
import tarfile
import threading
from pathlib import Path

import pytest
import redis

from assay_shared.errors import Conflict, InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_trainer.learner import checkpoint, retention
from assay_trainer.service import backup, command
from tests.support.valkey import TestValkey
from tests.unit.trainer.learner.test_retention import make_checkpoint, make_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_run(tmp_path / "runs", "a", "stopped")
    make_run(tmp_path / "runs", "b", "finished")
    return tmp_path / "runs"


def test_what_is_put_back_is_what_a_resume_needs(runs: Path, tmp_path: Path) -> None:
    (runs / "a" / "policy" / "published.jsonl").write_text("x\n")
    (runs / "a" / "policy" / "v000003" / "model.safetensors").write_bytes(b"w")
    file, to = tmp_path / "backup.tar", tmp_path / "other"
    assert backup.back_up(file, runs, [], None) == ["a", "b"]
    assert backup.restore(file, to, [], None) == ["a", "b"]
    found = sorted(str(p.relative_to(to / "a")) for p in (to / "a").rglob("*") if p.is_file())
    assert found == [
        "checkpoints/grpo/checkpoint-3/assay.json",
        "checkpoints/grpo/checkpoint-3/model.safetensors",
        "checkpoints/sft/checkpoint-3/assay.json",
        "checkpoints/sft/checkpoint-3/model.safetensors",
        "config.json",
        "discarded.jsonl",
        "discarded.older.jsonl",
        "policy/published.jsonl",
        "rollouts.jsonl",
        "status.json",
    ]
    assert RunFolder.open(to / "a").read_status() == RunFolder.open(runs / "a").read_status()
    assert sorted(path.name for path in to.iterdir()) == ["a", "b"]
    assert [path.name for path in (runs / "a").iterdir() if path.name.startswith(".")] == []


def test_one_run_may_be_taken_and_put_back_alone(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    backup.back_up(file, runs, [], None)
    shutil.rmtree(runs / "b")
    with pytest.raises(Conflict, match="a exists .restore into another folder"):
        backup.restore(file, runs, [], None)
    assert backup.restore(file, runs, ["b"], None) == ["b"]
    with pytest.raises(Conflict, match=r"backup.tar exists"):
        backup.back_up(file, runs, ["a"], None)
    with pytest.raises(NotFound, match="nothing is not a run folder"):
        backup.back_up(tmp_path / "x.tar", runs, ["nothing"], None)
    with pytest.raises(InvalidInput, match="it has no run 'c'"):
        backup.restore(file, runs, ["c"], None)
    with pytest.raises(InvalidInput, match="it has no run"):
        backup.restore(file, runs, ["../runs/a"], None)


def test_folders_that_no_backup_has_are_named(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, file in (("study", "pipeline.json"), ("arms", "ablation.json")):
        (runs / name).mkdir()
        (runs / name / file).write_text("{}")
    command.backup(tmp_path / "all.tar", runs, None, False)
    assert "(copy them): arms, study" in capsys.readouterr().out
    command.backup(tmp_path / "one.tar", runs, ["a"], False)
    assert "left out" not in capsys.readouterr().out


def test_a_damaged_backup_restores_nothing(runs: Path, tmp_path: Path) -> None:
    file, to = tmp_path / "backup.tar", tmp_path / "to"
    backup.back_up(file, runs, ["a"], None)
    content = bytearray(file.read_bytes())
    content[content.index(b"x" * 1000) + 5] ^= 1
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match="model.safetensors is not what was written"):
        backup.restore(file, to, [], None)
    assert list(to.iterdir()) == []
    file.write_bytes(content[: len(content) // 3])
    with pytest.raises(InvalidInput, match="not a backup, or is damaged"):
        backup.restore(file, to, [], None)


def test_a_run_that_goes_on_can_be_backed_up(runs: Path, tmp_path: Path) -> None:
    """Checkpoints come and go, logs grow: each backup has a whole checkpoint and loads."""
    run = RunFolder(runs / "a")
    stage, over = run.checkpoints / "grpo", threading.Event()

    def go_on() -> None:
        step = 3
        while not over.is_set():
            step += 1
            make_checkpoint(stage, step, 0.1)
            retention.forget_checkpoints(stage, 1, keep_best=False)
            run.record("step", step=step)
            run.write_status(RunStatus(state="running", step=step))

    running = threading.Thread(target=go_on)
    running.start()
    try:
        for number in range(10):
            backup.back_up(tmp_path / f"{number}.tar", runs, ["a"], None)
    finally:
        over.set()
        running.join()
    for number in range(10):
        to = tmp_path / str(number)
        backup.restore(tmp_path / f"{number}.tar", to, [], None)
        found = checkpoint.newest(to / "a" / "checkpoints" / "grpo")
        assert found is not None
        recorded = [event.data["step"] for event in RunFolder(to / "a").read_events()]
        assert (recorded or [3])[-1] >= checkpoint.step_of(found[0]) - 1  # type: ignore[operator]


def test_what_redis_holds_comes_back_with_its_time_to_live(
    runs: Path, tmp_path: Path, valkey: TestValkey
) -> None:
    file = tmp_path / "backup.tar"
    with redis.Redis.from_url(valkey.url) as client:
        client.set("assay:group:k", "result", ex=1000)
        client.hset("assay:judge:ledger", mapping={"cost": "1.5"})
        client.set("assay:lease:k", "a worker")
        client.lpush("rollouts", "a message of the queue")
        backup.back_up(file, runs, [], valkey.url)
        client.flushall()
        client.set("assay:group:k", "newer")
        backup.restore(file, tmp_path / "to", [], valkey.url)
        assert client.get("assay:group:k") == b"newer", "what is there stays"
        client.delete("assay:group:k")
        backup.restore(file, tmp_path / "to2", [], valkey.url)
        assert client.get("assay:group:k") == b"result"
        assert 900 < client.ttl("assay:group:k") <= 1000
        assert client.hget("assay:judge:ledger", "cost") == b"1.5"
        assert client.keys("*lease*") == []
        assert client.exists("rollouts") == 0


def test_an_archive_of_others_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.tar"
    with tarfile.open(file, "w") as archive:
        archive.addfile(tarfile.TarInfo("../evil"))
    with pytest.raises(InvalidInput, match="is not a backup"):
        backup.restore(file, tmp_path / "to", [], None)
