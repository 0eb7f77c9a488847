"""What a change does to the samples, by stored batches and events."""

from typing import Any

import pytest

from assay_trainer.ablation.decomposition.findings import SamplerFinding, SwitchVerdict
from assay_trainer.ablation.decomposition.sampler import (
    SampleCounts,
    SamplerFacts,
    sampler_finding,
)
from assay_trainer.events import StepEvent
from tests.support.fakes import make_rewards
from tests.unit.trainer.ablation.decomposition.conftest import make_groups, run_config, step_event


def found(
    old: dict[str, Any], new: dict[str, Any], *, flat: int = 0, **event: Any
) -> SamplerFinding | None:
    first, second = run_config(**old).grpo, run_config(**new).grpo
    assert first is not None
    assert second is not None
    groups = make_groups(1)
    for at in range(flat):
        groups[at] = groups[at].model_copy(update={"rewards": make_rewards(1.0, 1.0, 1.0, 1.0)})
    events = [StepEvent.model_validate(step_event(1, **event))]
    changed = {f"grpo.{name}" for name in {*old, *new} if old.get(name) != new.get(name)}
    return sampler_finding(
        changed, SamplerFacts(first, second, SampleCounts.of(groups, second), events)
    )


def test_a_setting_of_the_loss_is_none_of_the_sampler() -> None:
    assert found({}, {"kl_weight": 0.1}) is None


@pytest.mark.parametrize("field", ["temperature", "group_size", "groups_per_step"])
def test_other_requests_act(field: str) -> None:
    one = found({}, {field: 2})
    assert one is not None
    assert one.verdict is SwitchVerdict.ACTS


def test_replacing_flat_groups_does_nothing_where_none_was_flat() -> None:
    off = found({}, {"replace_flat": False}, num_without_signal=0)
    on = found({"replace_flat": False}, {"replace_flat": True})
    assert off is not None
    assert on is not None
    assert (off.verdict, off.jaccard) == (SwitchVerdict.NO_EFFECT, 1.0)
    assert (on.verdict, on.jaccard) == (SwitchVerdict.NO_EFFECT, 1.0)


def test_replacing_flat_groups_acts_where_some_were_flat_with_their_share() -> None:
    off = found({}, {"replace_flat": False}, num_without_signal=1)
    on = found({"replace_flat": False}, {"replace_flat": True}, flat=1)
    assert off is not None
    assert on is not None
    assert off.verdict is on.verdict is SwitchVerdict.ACTS
    assert off.jaccard == on.jaccard == 2 / 4


def test_a_limit_acts_only_if_an_answer_reaches_it() -> None:
    wide, narrow = found({}, {"max_tokens": 32}), found({}, {"max_tokens": 4})
    assert wide is not None
    assert narrow is not None
    assert wide.verdict is SwitchVerdict.NO_EFFECT
    assert narrow.verdict is SwitchVerdict.ACTS


def test_a_limit_acts_if_an_event_tells_of_an_answer_beyond_it() -> None:
    longer = found({}, {"max_tokens": 12}, length_max=13)
    cut = found({}, {"max_tokens": 32}, truncated_share=0.1)
    assert longer is not None
    assert cut is not None
    assert longer.verdict is cut.verdict is SwitchVerdict.ACTS


@pytest.mark.parametrize("event", [{"num_replaced": 1}, {"num_flat_before": 3}])
def test_each_count_of_replaced_groups_tells_that_replacing_acts(event: dict[str, int]) -> None:
    one = found({}, {"replace_flat": False}, **event)
    assert one is not None
    assert one.verdict is SwitchVerdict.ACTS


def test_the_most_groups_act_only_if_a_step_comes_near_them() -> None:
    old, new = {"max_groups_per_step": 40}, {"max_groups_per_step": 20}
    idle, busy = found(old, new), found(old, new, num_without_signal=17)
    assert idle is not None
    assert busy is not None
    assert (idle.verdict, busy.verdict) == (SwitchVerdict.NO_EFFECT, SwitchVerdict.ACTS)


def test_dropped_groups_make_the_bound_of_staleness_act() -> None:
    idle = found({}, {"hard_staleness": 4})
    busy = found({}, {"hard_staleness": 4}, refused={"too_old": 2})
    assert idle is not None
    assert busy is not None
    assert (idle.verdict, busy.verdict) == (SwitchVerdict.NO_EFFECT, SwitchVerdict.ACTS)


@pytest.mark.parametrize(
    ("old", "new", "num_played", "verdict"),
    [
        ([], ["~~~"], 3, SwitchVerdict.NO_EFFECT),
        ([], ["~~~"], 4, SwitchVerdict.UNKNOWN),  # a group is not stored
        (["~~~"], [], 3, SwitchVerdict.UNKNOWN),  # answers may be longer
        ([], ["~~~", "sum"], 4, SwitchVerdict.ACTS),
    ],
)
def test_a_text_that_ends_answers_acts_only_if_one_has_it(
    old: list[str], new: list[str], num_played: int, verdict: SwitchVerdict
) -> None:
    one = found({"stop": old}, {"stop": new}, num_played=num_played)
    assert one is not None
    assert one.verdict is verdict
