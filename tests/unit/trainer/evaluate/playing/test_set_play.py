"""A set whose requests fail."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from assay_shared.errors import AssayError, BudgetExceeded, InvalidInput, Unreachable
from assay_shared.types import Role
from assay_trainer.data.importers.choices import choice_example
from assay_trainer.evaluate.answers.likelihood import OptionText
from assay_trainer.evaluate.playing.player import PlayUnit, UnitPlayer
from assay_trainer.evaluate.playing.set_play import SetPlay, SetProgress
from assay_trainer.evaluate.sets import made_set
from assay_trainer.evaluate.store import EvaluationStore
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol
from tests.support.fakes import FakeGenerator, FakeRewarder, make_task

PROTOCOL = Protocol(kind="likelihood", prompt_format="raw")


class Refusing:
    """Fails each read by `error`, except the first `num_good` ones."""

    def __init__(self, error: AssayError, num_good: int = 0) -> None:
        self.error, self.num_good = error, num_good

    async def read(self, option: OptionText) -> tuple[float, int]:
        self.num_good -= 1
        if self.num_good >= 0:
            return -1.0, 1
        raise self.error


def play(path: Path, reader: Refusing) -> SetPlay:
    tasks = [
        choice_example(f"q{i}", "d", Role.TEST, "What?", ["x", "y"], 1, {}).task for i in range(12)
    ]
    opened = made_set("s", "s", tasks, limit=None, limit_seed=0)
    policy = EvaluatedPolicy(kind="server", name="m")
    store = EvaluationStore.begin(EvaluationFolder(path), policy, PROTOCOL, [opened], {})

    def ignore(progress: SetProgress) -> None: ...

    return SetPlay(opened, store, PROTOCOL, None, reader, 1, 32, ignore)


async def test_the_same_error_from_the_start_ends_the_set_with_it(tmp_path: Path) -> None:
    running = play(tmp_path, Refusing(InvalidInput("HTTP 404: no model m")))

    with pytest.raises(InvalidInput, match="the first 8 requests of s failed alike: .*no model m"):
        await running.play()
    assert running.progress.num_failed == 8


@pytest.mark.parametrize(
    "reader", [Refusing(Unreachable("down")), Refusing(InvalidInput("HTTP 400: long"), num_good=2)]
)
async def test_errors_that_may_pass_or_are_of_some_tasks_end_nothing(
    tmp_path: Path, reader: Refusing
) -> None:
    running = play(tmp_path, reader)

    await running.play()

    assert running.progress.num_done == 12


@dataclass
class Down:
    """A source that fails by `error`: every task, or those of `tasks` alone."""

    error: AssayError
    asks_each: bool
    tasks: tuple[str, ...] | None = None
    version: None = None

    def generator(self, unit: PlayUnit, set_name: str) -> FakeGenerator:
        generator = FakeGenerator(["x"])
        if self.tasks is None or unit.task.id in self.tasks:
            generator.error = self.error
        return generator

    def uncounted(self, unit: PlayUnit, set_name: str) -> tuple[int, ...]:
        return ()


def sampling(path: Path, source: Down, max_failed: int) -> SetPlay:
    """Return the play of 12 tasks with 8 samples each, task by task."""
    protocol = Protocol(kind="sampled", samples_per_task=8, temperature=1.0)
    tasks = [make_task(f"t{i}", role=Role.TEST) for i in range(12)]
    opened = made_set("s", "s", tasks, limit=None, limit_seed=0)
    policy = EvaluatedPolicy(kind="server", name="m")
    store = EvaluationStore.begin(EvaluationFolder(path), policy, protocol, [opened], {})
    player = UnitPlayer("e", "s", protocol, source, FakeRewarder({}))

    def ignore(progress: SetProgress) -> None: ...

    return SetPlay(opened, store, protocol, player, None, 1, max_failed, ignore)


@pytest.mark.parametrize(
    ("asks_each", "max_failed", "told", "num_failed"),
    [(True, 6, 16, 16), (True, 20, 24, 24), (True, 1, 8, 8), (False, 6, 6, 48), (False, 1, 1, 8)],
)
async def test_requests_without_a_score_are_counted_and_not_units(
    tmp_path: Path, asks_each: bool, max_failed: int, told: int, num_failed: int
) -> None:
    running = sampling(tmp_path, Down(Unreachable("down"), asks_each), max_failed)

    with pytest.raises(BudgetExceeded, match=f"^{told} requests in a row have no score"):
        await running.play()
    assert running.progress.num_failed == num_failed


@pytest.mark.parametrize(("asks_each", "told"), [(True, 16), (False, 8)])
async def test_the_first_requests_that_fail_alike_are_counted_by_sample(
    tmp_path: Path, asks_each: bool, told: int
) -> None:
    running = sampling(tmp_path, Down(InvalidInput("HTTP 404: no model m"), asks_each), 32)

    with pytest.raises(InvalidInput, match=f"the first {told} requests of s failed alike"):
        await running.play()


@pytest.mark.parametrize("error", [InvalidInput("HTTP 400: long"), Unreachable("filtered")])
async def test_one_task_that_a_server_always_refuses_ends_nothing(
    tmp_path: Path, error: AssayError
) -> None:
    running = sampling(tmp_path, Down(error, asks_each=True, tasks=("t0", "t2")), 6)

    await running.play()

    assert (running.progress.num_failed, running.progress.num_samples) == (16, 96)
