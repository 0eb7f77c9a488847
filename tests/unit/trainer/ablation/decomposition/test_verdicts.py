"""The rules of the verdicts, with numbers on both sides of each bound."""

import pytest

from assay_trainer.ablation.decomposition.findings import (
    BatchParts,
    SamplerFinding,
    SwitchVerdict,
)
from assay_trainer.ablation.decomposition.verdicts import (
    arm_verdict,
    gradient_verdict,
    reward_finding,
)


def batch(
    difference: float, scale: float = 1.0, direction: float = 0.0, noise: float = 0.0
) -> BatchParts:
    return BatchParts(
        step=1,
        num_groups=1,
        num_updates=1,
        difference=difference,
        scale=scale,
        direction=direction,
        change_difference=difference,
        change_scale=scale,
        change_direction=direction,
        noise=noise,
    )


@pytest.mark.parametrize(
    ("batches", "verdict"),
    [
        ([batch(9e-7)], SwitchVerdict.NO_EFFECT),
        ([batch(2e-6, 1 + 2e-6, 1e-6)], SwitchVerdict.WEAK),
        ([batch(2e-6, noise=1e-6)], SwitchVerdict.NO_EFFECT),
        ([batch(4e-6, noise=1e-6)], SwitchVerdict.WEAK),
        ([batch(0.4, 1.4, 0.009)], SwitchVerdict.SCALE_ONLY),
        ([batch(0.4, 1.4, 0.011)], SwitchVerdict.ACTS),
        ([batch(2.0, -1.0, 0.0)], SwitchVerdict.ACTS),
        ([batch(0.4, 1.4), batch(0.4, 1.41)], SwitchVerdict.SCALE_ONLY),
        ([batch(0.4, 1.4), batch(0.4, 1.42)], SwitchVerdict.ACTS),
        ([batch(0.0, 1.0), batch(1.0, 0.0)], SwitchVerdict.ACTS),
        ([batch(0.0), batch(0.02, 1.0, 0.02)], SwitchVerdict.ACTS),
        ([], SwitchVerdict.UNKNOWN),
    ],
)
def test_the_verdict_follows_the_largest_part_over_all_batches(
    batches: list[BatchParts], verdict: SwitchVerdict
) -> None:
    assert gradient_verdict(batches, {"grpo.loss"}) is verdict


def test_only_settings_of_the_step_size_are_judged_by_the_weights_change() -> None:
    moved = batch(0.0).model_copy(update={"change_difference": 0.5})
    assert gradient_verdict([moved], {"grpo.learning_rate"}) is SwitchVerdict.ACTS
    assert gradient_verdict([moved], {"grpo.loss"}) is SwitchVerdict.NO_EFFECT


@pytest.mark.parametrize(
    ("change", "verdict"), [(0.009, SwitchVerdict.SCALE_ONLY), (0.011, SwitchVerdict.ACTS)]
)
def test_a_gradient_of_another_size_acts_by_what_it_does_to_the_weights(
    change: float, verdict: SwitchVerdict
) -> None:
    """A norm that is not clipped any more: Adam takes the same first step, and another second."""
    scaled = batch(0.4, 1.4).model_copy(update={"change_difference": change})
    assert gradient_verdict([scaled], {"grpo.max_grad_norm"}) is verdict


@pytest.mark.parametrize(
    ("direction", "scale", "changed", "verdict"),
    [
        (0.001, 1.4, "grpo.normalise", SwitchVerdict.SCALE_ONLY),
        (0.001, 1.4, "grpo.learning_rate", SwitchVerdict.ACTS),
        (0.02, 1.4, "grpo.normalise", SwitchVerdict.ACTS),
        (0.001, -1.4, "grpo.normalise", SwitchVerdict.ACTS),
        (0.001, 1.0, "grpo.normalise", SwitchVerdict.ACTS),
    ],
)
def test_a_scale_at_equal_weights_outweighs_the_way_that_it_takes(
    direction: float, scale: float, changed: str, verdict: SwitchVerdict
) -> None:
    equal = {"update_direction": direction, "update_scale": scale}
    drifts = batch(0.4, 1.3, 0.05).model_copy(update=equal)
    assert gradient_verdict([drifts], {changed}) is verdict


def test_an_arm_that_changes_its_samples_acts_whatever_its_gradient_says() -> None:
    acts = SamplerFinding(verdict=SwitchVerdict.ACTS, reason="other answers")
    none = SamplerFinding(verdict=SwitchVerdict.NO_EFFECT, reason="no group was flat")
    assert arm_verdict(SwitchVerdict.NO_EFFECT, acts)[0] is SwitchVerdict.ACTS
    verdict, reason = arm_verdict(SwitchVerdict.NO_EFFECT, none)
    assert verdict is SwitchVerdict.NO_EFFECT
    assert "no group was flat" in reason
    assert arm_verdict(SwitchVerdict.ACTS, none)[0] is SwitchVerdict.ACTS


def test_a_setting_at_work_is_never_without_effect() -> None:
    told = "clipped_low is 0.1 in step 2 of run"
    verdict, reason = arm_verdict(SwitchVerdict.NO_EFFECT, None, told)
    assert verdict is SwitchVerdict.UNKNOWN
    assert told in reason
    assert arm_verdict(SwitchVerdict.SCALE_ONLY, None, told)[0] is SwitchVerdict.SCALE_ONLY


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        ([0.0, 1.0, 0.5, 0.2], SwitchVerdict.NO_EFFECT),
        ([0.0, 1.4, 0.7, 0.28], SwitchVerdict.OTHER_UNITS),
        ([1.0, 3.0, 2.0, 1.4], SwitchVerdict.OTHER_UNITS),
        ([0.0, 1.0, 0.25, 0.04], SwitchVerdict.ACTS),
        ([0.0, -1.0, -0.5, -0.2], SwitchVerdict.ACTS),
    ],
)
def test_rewards_in_other_units_are_told_from_other_rewards(
    new: list[float], verdict: SwitchVerdict
) -> None:
    assert reward_finding([0.0, 1.0, 0.5, 0.2], new).verdict is verdict
