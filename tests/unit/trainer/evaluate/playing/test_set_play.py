"""A set whose requests fail."""

from pathlib import Path

import pytest

from assay_shared.errors import AssayError, InvalidInput, Unreachable
from assay_shared.types import Role
from assay_trainer.data.importers.choices import choice_example
from assay_trainer.evaluate.answers.likelihood import OptionText
from assay_trainer.evaluate.playing.set_play import SetPlay, SetProgress
from assay_trainer.evaluate.sets import made_set
from assay_trainer.evaluate.store import EvaluationStore
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol

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
