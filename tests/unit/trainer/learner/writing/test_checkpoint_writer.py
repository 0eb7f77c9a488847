"""Checkpoints are written while training continues, and a kill leaves the one before."""

import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from assay_shared.errors import Unreachable
from assay_trainer.config import RetentionConfig
from assay_trainer.curriculum.state import BatcherState
from assay_trainer.learner import checkpoint
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.packs import Pack, pack_rows, rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.updater import Updater, make_updater
from assay_trainer.learner.writing.checkpoint_writer import CheckpointWriter
from assay_trainer.learner.writing.state_writer import NotWritten
from assay_trainer.weights.folder import publish_policy
from tests.support.policies import TEXTS, TINY
from tests.support.ranks import FOLLOW, processes
from tests.unit.trainer.learner.test_updater import make_config, make_groups, make_model

LEAD = (sys.executable, "-m", __name__)
CONFIG = make_config(learning_rate=0.01)
#: 13 million weights, whose checkpoint has 150 MB.
LARGE = TINY.model_copy(update={"hidden_size": 512, "intermediate_size": 1408, "num_layers": 4})


def make_updates(updater: Updater, packs: list[Pack], step: int, number: int = 1) -> None:
    for at in range(number):
        updater.apply(step + at, updater.backward(packs))


def packs_of(updater: Updater) -> list[Pack]:
    return pack_rows(rows(make_groups()), updater.objective, 64)


def make_writer(folder: Path) -> CheckpointWriter:
    return CheckpointWriter(folder, RetentionConfig())


def begin(writer: CheckpointWriter, updater: Updater, step: int) -> None:
    writer.begin(updater, step, BatcherState(10 * step), pass_rate=None)


@pytest.fixture
def updater() -> Updater:
    found = Updater(make_model(), CONFIG)
    make_updates(found, packs_of(found), step=1)
    return found


def weights(updater: Updater) -> list[torch.Tensor]:
    return [one.detach().clone() for one in updater._parameters]


def test_updates_during_the_writing_are_not_in_the_checkpoint(
    updater: Updater, tmp_path: Path
) -> None:
    packs = packs_of(updater)
    with make_writer(tmp_path) as writer:
        before = weights(updater)
        begin(writer, updater, 1)
        make_updates(updater, packs, 2, number=3)
        writer.release()
    assert not torch.equal(weights(updater)[0], before[0])
    found = checkpoint.newest(tmp_path)
    assert found == (checkpoint.folder_of(tmp_path, 1), BatcherState(10))
    updater.load(found[0])
    assert all(map(torch.equal, weights(updater), before))
    seconds = writer.take_seconds()
    assert seconds is not None
    assert seconds > 0
    assert writer.take_seconds() is None, "told once"


def test_a_checkpoint_is_whole_only_after_its_release(updater: Updater, tmp_path: Path) -> None:
    with make_writer(tmp_path) as writer:
        begin(writer, updater, 1)
        updater.finish()
        assert (checkpoint.folder_of(tmp_path, 1) / ".metadata").exists()
        time.sleep(0.05)
        assert checkpoint.whole(tmp_path) == []
        writer.release()
        begin(writer, updater, 2)
        assert checkpoint.whole(tmp_path) == [checkpoint.folder_of(tmp_path, 1)], "one in flight"
        writer.release()
    assert [checkpoint.step_of(one) for one in checkpoint.whole(tmp_path)] == [1, 2]
    with pytest.raises(TypeError, match="planted"):
        fail_to_record(updater, tmp_path)
    assert [checkpoint.step_of(one) for one in checkpoint.whole(tmp_path)] == [1, 2]


def fail_to_record(updater: Updater, folder: Path) -> None:
    with make_writer(folder) as writer:
        begin(writer, updater, 3)
        raise TypeError("planted: the event of the step")


@contextmanager
def small_files(num_bytes: int) -> Iterator[None]:
    """Let no file of this process become larger: the kernel refuses, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_error_of_the_thread_rises_at_the_next_step_and_the_run_can_be_resumed(
    updater: Updater, tmp_path: Path
) -> None:
    with make_writer(tmp_path) as writer:
        begin(writer, updater, 1)
        writer.release()
    with make_writer(tmp_path) as writer:
        with small_files(2000):
            begin(writer, updater, 2)
            writer.release()
            with pytest.raises(NotWritten, match=r"checkpoint-2 could not be .*resume the run"):
                check_at_steps(writer)
        assert checkpoint.newest(tmp_path) == (checkpoint.folder_of(tmp_path, 1), BatcherState(10))
    with make_writer(tmp_path) as writer:
        begin(writer, updater, 2)
        writer.release()
    assert checkpoint.newest(tmp_path) == (checkpoint.folder_of(tmp_path, 2), BatcherState(20))


def check_at_steps(writer: CheckpointWriter) -> None:
    for _ in range(1000):
        writer.check()
        time.sleep(0.01)


def test_an_error_at_the_end_of_a_stage_rises_there(updater: Updater, tmp_path: Path) -> None:
    with pytest.raises(NotWritten, match="checkpoint-1"), small_files(2000):
        write_one(updater, tmp_path)


def write_one(updater: Updater, folder: Path) -> None:
    with make_writer(folder) as writer:
        begin(writer, updater, 1)
        writer.release()


def lead(policy: Path, checkpoints: Path, expected: Path) -> None:
    """Be rank 0 of a training that is killed while it writes its second checkpoint."""
    ranks = Ranks()
    model, tokenizer = load_policy(policy)
    updater = make_updater(model, CONFIG, ranks)
    packs = packs_of(updater)
    make_updates(updater, packs, 1)
    try:
        with make_writer(checkpoints) as writer:
            begin(writer, updater, 1)
            writer.release()
            writer.wait()
            publish_policy(model, tokenizer, expected)
            make_updates(updater, packs, 2)
            begin(writer, updater, 2)
            writer.release()
            while True:
                make_updates(updater, packs, 3)
    except Unreachable as error:
        sys.stdout.write(error.message)
        sys.exit(3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_ranks", "victim"), [(1, 0), pytest.param(2, 0, marks=pytest.mark.nightly), (2, 1)]
)
def test_a_kill_in_the_middle_of_writing_leaves_the_checkpoint_before(
    tmp_path: Path, num_ranks: int, victim: int
) -> None:
    policy, checkpoints = tmp_path / "policy", tmp_path / "checkpoints"
    publish_policy(*create_policy(LARGE, TEXTS, seed=0), policy)
    second = checkpoint.folder_of(checkpoints, 2)
    leader = (*LEAD, str(policy), str(checkpoints), str(tmp_path / "expected"))
    with processes([leader, *[FOLLOW] * (num_ranks - 1)]) as running:
        written = second / f"__{victim}_0.distcp"
        while not (written.is_file() and written.stat().st_size):
            assert running[0].poll() is None, running[0].communicate()[0]
            time.sleep(0.0005)
        os.kill(running[victim].pid, signal.SIGKILL)
        for at, process in enumerate(running):
            said = process.communicate(timeout=240)[0]
            assert at == victim or "of this training has ended" in said
    assert not (second / "assay.json").exists(), "the kill came too late to test anything"
    found = checkpoint.take_newest(checkpoints, lambda *_: pytest.fail("refused"))
    assert found == (checkpoint.folder_of(checkpoints, 1), BatcherState(10))
    updater = Updater(load_policy(policy)[0], CONFIG)
    updater.load(found[0])
    expected = load_policy(tmp_path / "expected")[0]
    for name, weight in updater._model.named_parameters():
        assert torch.equal(weight, expected.get_parameter(name)), name


if __name__ == "__main__":
    lead(*map(Path, sys.argv[1:]))
