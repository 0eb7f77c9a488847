"""Units, played: records with verdicts and costs, and failures in their places."""

from collections.abc import Sequence

import pytest

from assay_shared.errors import Unreachable, to_failure
from assay_shared.interfaces import Generator
from assay_shared.types import (
    ComponentReport,
    Cost,
    FailureClass,
    GenerateRequest,
    GenerateResponse,
    PolicyVersion,
    PromptFormat,
    ScoreRequest,
    ScoreResponse,
    Status,
)
from assay_trainer.evaluate.playing.player import PlayUnit, UnitPlayer, pass_ratio
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.rollouts.worker import PartialResponse
from tests.support.fakes import POLICY, FakeGenerator, FakeRewarder, make_task


class Costly(FakeRewarder):
    async def score(self, request: ScoreRequest) -> ScoreResponse:
        response = await super().score(request)
        reports = (
            ComponentReport(name="accepted", time_s=3.0, cost=Cost(sandbox_cpu_s=2.0)),
            ComponentReport(name="qa", time_s=4.0, cost=Cost(judge_tokens=10, money=1.0)),
        )
        return response.model_copy(update={"components": reports})


class Answers:
    """One generator for every unit."""

    untold: Sequence[int] = ()
    asks_each = False

    def __init__(self, generator: FakeGenerator, version: PolicyVersion | None) -> None:
        self.inner = generator
        self.version = version

    def generator(self, unit: PlayUnit, set_name: str) -> Generator:
        return self.inner

    def uncounted(self, unit: PlayUnit, set_name: str) -> Sequence[int]:
        return [one for one in unit.indices if one in self.untold]


def player(
    generator: FakeGenerator,
    rewarder: FakeRewarder,
    version: PolicyVersion | None = POLICY,
) -> UnitPlayer:
    protocol = Protocol(top_p=0.9, stop=("x",))
    return UnitPlayer("e", "s", protocol, Answers(generator, version), rewarder)


UNIT = PlayUnit(make_task(prompt_format=PromptFormat.RAW), place=3, first=2, num=2, max_tokens=64)


async def test_each_sample_has_its_verdict_and_its_share_of_the_costs() -> None:
    generator = FakeGenerator(["right", "wrong"])
    played = player(generator, Costly({"right": 1.0}))

    records, scorer = await played.play(UNIT)

    assert scorer == "fake@0"
    assert [(one.index, one.text, one.outcome) for one in records] == [
        (2, "right", Status.ACCEPTED),
        (3, "wrong", Status.WRONG_ANSWER),
    ]
    first = records[0]
    assert (first.num_tokens, first.sandbox_cpu_s, first.judge_s) == (2, 1.0, 2.0)
    assert (first.judge_tokens, first.money) == (5.0, 0.5)
    (request,) = generator.requests
    assert (request.sampling.top_p, request.sampling.stop) == (0.9, ("x",))
    assert request.sampling.max_tokens == 64
    assert request.prompt == UNIT.task.prompt


async def test_tokens_that_nobody_has_counted_are_null_and_not_0() -> None:
    answers = Answers(FakeGenerator(["right", "wrong"]), POLICY)
    answers.untold = [3]

    rewarder = FakeRewarder({})

    records, _ = await UnitPlayer("e", "s", Protocol(), answers, rewarder).play(UNIT)

    assert [one.num_tokens for one in records] == [2, None]
    (asked,) = rewarder.requests
    assert [one.num_tokens for one in asked.answers] == [2, None]


async def test_seeds_differ_by_task_and_unit_and_are_the_same_again() -> None:
    generator = FakeGenerator(["x"])
    played = player(generator, FakeRewarder({}))
    units = [UNIT, PlayUnit(UNIT.task, 4, 2, 2, 64), PlayUnit(UNIT.task, 3, 0, 2, 64), UNIT]

    for unit in units:
        await played.play(unit)

    seeds = [one.sampling.seed for one in generator.requests]
    assert len(set(seeds[:3])) == 3
    assert seeds[3] == seeds[0]


async def test_a_failure_is_stored_in_the_place_of_each_sample() -> None:
    generator = FakeGenerator(["x"])
    generator.error = Unreachable("planted", service="inference")

    records, scorer = await player(generator, FakeRewarder({})).play(UNIT)

    assert scorer == ""
    assert [one.index for one in records] == [2, 3]
    assert all(one.outcome is None and one.reward is None for one in records)
    assert {one.failure and one.failure.failure_class for one in records} == {FailureClass.NETWORK}


async def test_one_sample_may_fail_alone() -> None:
    played = player(FakeGenerator(["right", "lost"]), FakeRewarder({"right": 1.0, "lost": None}))

    records, _ = await played.play(UNIT)

    assert [one.failure is None for one in records] == [True, False]
    assert records[1].text == "lost"


class LosesTheFirst(FakeGenerator):
    """Has no answer for the first sample."""

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        found = await super().generate(request)
        nothing = found.completions[0].model_copy(update={"token_ids": (), "text": ""})
        return PartialResponse(
            prompt_token_ids=found.prompt_token_ids,
            completions=(nothing.model_copy(update={"logprobs": ()}), *found.completions[1:]),
            lost={0: to_failure(Unreachable("planted"), "server")},
        )


async def test_a_sample_without_an_answer_is_not_scored_and_the_others_are() -> None:
    rewarder = FakeRewarder({"right": 1.0, "": 0.0})

    records, _ = await player(LosesTheFirst(["x", "right"]), rewarder).play(UNIT)

    lost, found = records
    assert lost.failure is not None
    assert (lost.index, lost.outcome, lost.num_tokens) == (2, None, None)
    assert "planted" in lost.failure.message
    assert (found.index, found.text, found.reward) == (3, "right", 1.0)


async def test_samples_of_other_weights_are_failures() -> None:
    other = PolicyVersion(version=9, digest="other")
    played = player(FakeGenerator(["x"], other), FakeRewarder({}))

    records, _ = await played.play(UNIT)

    assert "version 9 where version 1 is measured" in str(records[0].failure)


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("3/4 tests passed", 0.75),
        ("1/1 tests passed, in the program's own process", 1.0),
        ("found 3/4 tests passed", None),
        ("chose B", None),
    ],
)
def test_the_pass_ratio_is_read_from_the_evidence(detail: str, expected: float | None) -> None:
    assert pass_ratio([detail]) == expected
