"""Votes of a set whose requests fail: scores are kept, and the votes end as of one play."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assay_shared.errors import Unreachable, to_failure
from assay_shared.interfaces import Generator
from assay_shared.types import GenerateRequest, GenerateResponse, PolicyVersion, Role
from assay_trainer.evaluate.playing.player import PlayUnit, UnitPlayer
from assay_trainer.evaluate.playing.set_play import SetPlay, SetProgress
from assay_trainer.evaluate.sets import made_set
from assay_trainer.evaluate.store import EvaluationStore
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.rollouts.worker import PartialResponse
from tests.support.fakes import POLICY, FakeRewarder, make_completion, make_task

PROTOCOL = Protocol(kind="majority", samples_per_task=4, temperature=1.0)
TASKS = [make_task(f"t{i}", role=Role.TEST) for i in range(3)]
#: The answers of each task; the first three are equal.
TEXTS = ("#### 1/2", "#### 0.5", "\\boxed{0.50}", "#### 3")
LOST = to_failure(Unreachable("down"), "model server")


@dataclass
class Failing:
    """A source whose samples fail, each by a number of times."""

    failures: Counter[tuple[str, int]]
    #: It has a request for each sample, and leaves out the known ones.
    asks_each: bool = True
    asked: list[tuple[str, int]] = field(default_factory=list)
    version: PolicyVersion | None = None

    def generator(self, unit: PlayUnit, set_name: str) -> Generator:
        return _OfUnit(self, unit)

    def uncounted(self, unit: PlayUnit, set_name: str) -> tuple[int, ...]:
        return ()


@dataclass
class _OfUnit:
    source: Failing
    unit: PlayUnit

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        lost = {}
        for place, index in enumerate(self.unit.indices):
            sample = (self.unit.task.id, index)
            if self.source.asks_each and index in self.unit.known:
                lost[place] = LOST
                continue
            self.source.asked.append(sample)
            if self.source.failures[sample] > 0:
                self.source.failures[sample] -= 1
                lost[place] = LOST
        completions = tuple(make_completion(TEXTS[index], POLICY) for index in self.unit.indices)
        return PartialResponse(prompt_token_ids=(1,), completions=completions, lost=lost)


async def play(path: Path, source: Failing) -> dict[tuple[str, int], SampleRecord]:
    """Play what is missing; return the stored samples without the seconds they took."""
    opened = made_set("s", "s", TASKS, limit=None, limit_seed=0)
    policy = EvaluatedPolicy(kind="server", name="m")
    store = EvaluationStore.begin(EvaluationFolder(path), policy, PROTOCOL, [opened], {})
    player = UnitPlayer("e", "s", PROTOCOL, source, FakeRewarder({TEXTS[0]: 1.0}))

    def ignore(progress: SetProgress) -> None: ...

    await SetPlay(opened, store, PROTOCOL, player, None, 2, 32, ignore).play()
    clock = {"generate_s": 0.0, "score_s": 0.0}
    return {
        (one.task_id, one.index): one.model_copy(update=clock)
        for one in store.folder.read_set(store.facts("s")).samples
    }


def failures() -> Counter[tuple[str, int]]:
    """Return failures of which some come in a sample's second and third play."""
    return Counter({("t0", 0): 3, ("t0", 2): 1, ("t1", 1): 2, ("t1", 3): 2})


@pytest.mark.parametrize("asks_each", [True, False])
async def test_repeated_failures_end_as_an_uninterrupted_run(
    tmp_path: Path, asks_each: bool
) -> None:
    whole = await play(tmp_path / "whole", Failing(Counter(), asks_each))
    source = Failing(failures(), asks_each)

    scores = []
    for _ in range(4):
        found = await play(tmp_path / "failing", source)
        scores.append({sample for sample, one in found.items() if one.failure is None})

    assert [len(some) for some in scores] == [8, 9, 11, 12]
    assert scores[0] < scores[1] < scores[2] < scores[3]
    assert found == whole
    assert [found["t0", index].vote for index in range(4)] == ["1/2", "1/2", "1/2", "3"]


async def test_a_served_policy_that_fails_later_costs_no_stored_score(tmp_path: Path) -> None:
    source = Failing(Counter({("t0", 3): 1}), asks_each=False)
    before = await play(tmp_path, source)
    source.failures = Counter({("t0", index): 1 for index in range(4)})

    after = await play(tmp_path, source)

    assert after == before
    assert after["t0", 0].failure is None
    assert after["t0", 3].failure is not None


async def test_a_server_is_asked_for_missing_votes_alone(tmp_path: Path) -> None:
    source = Failing(failures())
    await play(tmp_path, source)
    source.asked.clear()

    await play(tmp_path, source)

    assert source.asked == [("t0", 0), ("t0", 2), ("t1", 1), ("t1", 3)]
