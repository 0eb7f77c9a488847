"""Answers at the length limit: DAPO's punishment as TRL computes it, and the filter."""

import pytest
from trl.rewards.other_rewards import get_soft_overlong_punishment

from assay_shared.types import FinishReason, Normalisation, Rollout, RolloutSpan, ScoredGroup, Turn
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.advantage import advantages, group_rewards
from assay_trainer.learner.normalisation.overlong import Overlong, longest_reply
from assay_trainer.learner.packs import rows
from tests.support.fakes import POLICY, make_scored_group

FILTER, PUNISH = Overlong("filter", 20), Overlong("punish", 20, 8)


def answer(
    num: int, end: FinishReason = FinishReason.STOP, turns: tuple[Turn, ...] = ()
) -> Rollout:
    return Rollout(
        token_ids=(5,) * num,
        logprobs=(-0.5,) * num,
        text="x",
        finish_reason=end,
        spans=(RolloutSpan(policy=POLICY, num_tokens=num),),
        turns=turns,
    )


def with_lengths(scored: ScoredGroup, *lengths: int) -> ScoredGroup:
    """Answers of 20 tokens are cut off."""
    ends = [FinishReason.LENGTH if num == 20 else FinishReason.STOP for num in lengths]
    rollouts = tuple(answer(num, end) for num, end in zip(lengths, ends, strict=True))
    return scored.model_copy(
        update={"group": scored.group.model_copy(update={"rollouts": rollouts})}
    )


@pytest.mark.parametrize("zone", [1, 7, 20])
def test_the_punishment_is_that_of_trl(zone: int) -> None:
    theirs = get_soft_overlong_punishment(max_completion_len=20, soft_punish_cache=zone)
    lengths = range(1, 24)
    ours = [Overlong("punish", 20, zone).punishment(answer(num)) for num in lengths]
    assert ours == pytest.approx(theirs(completion_ids=[[1] * num for num in lengths]))


def test_a_punished_reward_moves_its_group() -> None:
    """Equation 13 with a limit of 20 and a zone of 8: 16 tokens cost a half."""
    scored = with_lengths(make_scored_group("a", 1.0, 1.0, 0.0), 12, 16, 3)
    assert group_rewards(scored, Normalisation.NONE, PUNISH).rewards_G == [1.0, 0.5, 0.0]
    half = Overlong("punish", 20, 8, factor=0.5)
    assert group_rewards(scored, Normalisation.NONE, half).rewards_G == [1.0, 0.75, 0.0]
    assert [r.value for r in scored.rewards if hasattr(r, "value")] == [1.0, 1.0, 0.0]


def test_lengths_alone_are_a_signal_of_punished_groups() -> None:
    scored = with_lengths(make_scored_group("a", 1.0, 1.0), 12, 20)
    assert not group_rewards(scored, Normalisation.GROUP).has_signal
    assert group_rewards(scored, Normalisation.GROUP, PUNISH).has_signal


def test_by_component_the_length_has_its_own_scale() -> None:
    scored = with_lengths(make_scored_group("a", 1.0, 1.0, 1.0), 12, 16, 20)
    found = group_rewards(scored, Normalisation.COMPONENTS, PUNISH)
    assert (found.weights_K, found.components_KG) == ([1.0], [[0.0, -0.5, -1.0]])
    (row,) = advantages([found])
    assert row == pytest.approx([1.0, 0.0, -1.0], rel=1e-3)
    short = with_lengths(make_scored_group("a", 1.0, 0.0), 2, 3)
    assert group_rewards(short, Normalisation.COMPONENTS, PUNISH).weights_K == []


def test_a_filtered_answer_is_not_learnt_and_counts_in_its_groups_mean() -> None:
    scored = with_lengths(make_scored_group("a", 1.0, 0.0, 0.5), 3, 20, 4)
    found = rows([scored], Normalisation.NONE, FILTER)
    assert [(row.rollout.num_sampled, row.advantage) for row in found] == [(3, 0.5), (4, 0.0)]


def test_a_group_of_filtered_answers_alone_has_no_signal() -> None:
    scored = with_lengths(make_scored_group("a", 1.0, 0.0, None), 20, 20, 3)
    found = group_rewards(scored, Normalisation.GROUP, FILTER)
    assert not found.is_learnt
    assert not found.has_signal
    assert group_rewards(scored, Normalisation.GROUP, PUNISH).has_signal


def test_in_several_turns_each_reply_has_the_limit() -> None:
    turns = (Turn(start=0, end=20, text="a"), Turn(start=30, end=33, text="b"))
    played = answer(33, turns=turns)
    assert longest_reply(played) == 20
    assert FILTER.drops(played), "an earlier reply was cut off"
    assert PUNISH.punishment(played) == -1.0
    short = answer(33, turns=(turns[1], Turn(start=13, end=33, text="at the limit")))
    assert not FILTER.drops(short), "no reply was cut off"
    assert not FILTER.drops(answer(20))
    assert FILTER.drops(answer(7, FinishReason.LENGTH)), "the context was full"


def test_the_rule_is_that_of_the_run_file() -> None:
    def rule(**overlong: object) -> Overlong | None:
        values = {"steps": 1, "max_tokens": 20, "overlong": overlong or None}
        return Overlong.of(GRPOConfig.model_validate(values))

    assert rule() is None
    assert rule(kind="filter") == FILTER
    assert rule(kind="punish", tokens=8, factor=0.25) == Overlong("punish", 20, 8, 0.25)
    for wrong, name in (
        ({"kind": "punish", "tokens": 21}, "overlong.tokens must be at most max_tokens"),
        ({"kind": "filter", "factor": 2}, "overlong.factor does nothing with kind filter"),
    ):
        with pytest.raises(ValueError, match=name):
            rule(**wrong)
