"""What an arm changes is found on stored batches, over all updates of a step."""

from pathlib import Path
from typing import Any

import pytest

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.ablation.decomposition.batches import stored_batches
from assay_trainer.ablation.decomposition.decompose import ArmPair, compare, decompose, start_of
from assay_trainer.ablation.decomposition.findings import BatchParts, Decomposition, SwitchVerdict
from assay_trainer.ablation.decomposition.steps import Settings
from assay_trainer.ablation.decomposition.verdicts import gradient_verdict
from assay_trainer.learner.ranks import Ranks
from assay_trainer.rollouts.rollout_log import append_discarded
from tests.unit.trainer.ablation.decomposition.conftest import (
    FLAT,
    STEPS,
    make_groups,
    make_run,
    run_config,
    step_event,
)

pytestmark = pytest.mark.slow  # policies are loaded several times
CPU = Ranks(on_gpu=False)


def found(run: RunFolder, old: dict[str, Any], new: dict[str, Any]) -> Decomposition:
    pair = ArmPair("new", "old", run_config(**new), run_config(**old))
    return decompose(pair, [run], STEPS, CPU)


def among(runs: list[RunFolder], old: dict[str, Any], new: dict[str, Any]) -> Decomposition:
    """What the first batch of each seed, and all that they recorded, tell."""
    return decompose(ArmPair("new", "old", run_config(**new), run_config(**old)), runs, 1, CPU)


def on_policy(run: RunFolder, old: dict[str, Any], new: dict[str, Any]) -> BatchParts:
    """The parts of the first batch, as if the weights themselves had sampled it."""
    (batch,) = stored_batches(run, 1)
    settings = Settings(start_of(run), CPU)
    first, second = settings.of(run_config(**old)), settings.of(run_config(**new))
    return compare(first, second, first.updater.snapshot(), batch, on_policy=True)[0]


def test_equal_settings_have_no_effect_in_any_batch(stored_run: RunFolder) -> None:
    one = found(stored_run, {}, {})
    assert one.verdict is SwitchVerdict.NO_EFFECT
    assert [batch.difference for batch in one.batches] == [0.0] * STEPS


def test_an_average_acts_where_lengths_differ_and_not_where_they_are_equal(
    stored_run: RunFolder, equal_run: RunFolder
) -> None:
    arms = ({"average": "token"}, {"average": "sequence"})
    assert found(stored_run, *arms).verdict is SwitchVerdict.ACTS
    assert found(equal_run, *arms).verdict is SwitchVerdict.NO_EFFECT


def test_another_constant_is_a_change_of_scale_alone(equal_run: RunFolder) -> None:
    one = found(equal_run, {"average": "token"}, {"average": "constant"})
    assert one.verdict is SwitchVerdict.SCALE_ONLY
    assert one.batches[0].scale == pytest.approx(5 / 16, rel=1e-4)
    assert not one.verdict.is_compared


def test_a_group_that_another_seed_replaced_tells_that_replacing_acts(
    stored_run: RunFolder, tmp_path: Path
) -> None:
    """The first seed has none; the other one has it after the batches that are compared."""
    other = make_run(tmp_path / "other")
    other.record("step", **step_event(STEPS + 1, num_replaced=1, num_without_signal=1))
    flat = ({"replace_flat": True}, {"replace_flat": False})
    assert among([stored_run], *flat).verdict is SwitchVerdict.NO_EFFECT
    both = among([stored_run, other], *flat)
    assert both.verdict is SwitchVerdict.ACTS
    assert "1 groups of 18 were replaced" in both.reason
    assert both.runs == ["stored", "other"]


def test_a_long_answer_of_a_group_that_was_left_out_tells_that_a_limit_acts(
    stored_run: RunFolder, tmp_path: Path
) -> None:
    other = make_run(tmp_path / "other")
    limits = ({"max_tokens": 16}, {"max_tokens": 8})
    assert among([stored_run, other], *limits).verdict is SwitchVerdict.NO_EFFECT
    (group, *_) = make_groups(STEPS)
    (first, *rest) = group.group.rollouts
    many = {
        "token_ids": first.token_ids * 4,
        "logprobs": first.logprobs * 4,
        "spans": first.spans * 4,
    }
    answers = {"rollouts": (first.model_copy(update=many), *rest)}
    long = group.model_copy(update={"group": group.group.model_copy(update=answers)})
    append_discarded(other.rollouts, long, STEPS, "no_signal", 2**24)
    both = among([stored_run, other], *limits)
    assert both.verdict is SwitchVerdict.ACTS
    assert "1 are longer than 8 tokens" in both.reason


def test_gradients_of_all_seeds_are_needed_for_no_effect(
    stored_run: RunFolder, equal_run: RunFolder
) -> None:
    arms = ({"average": "token"}, {"average": "sequence"})
    assert among([equal_run], *arms).verdict is SwitchVerdict.NO_EFFECT
    both = among([equal_run, stored_run], *arms)
    assert both.verdict is SwitchVerdict.ACTS
    assert [one.run for one in both.batches] == ["equal", "stored"]
    assert len(among([stored_run, equal_run], *arms).batches) == 1


def test_equal_settings_of_updates_are_compared_on_one_seed(
    stored_run: RunFolder, tmp_path: Path
) -> None:
    runs = [stored_run, make_run(tmp_path / "other")]
    same, other = among(runs, {}, {}), among(runs, {}, {"max_flat_steps": 77})
    assert [one.run for one in same.batches] == ["stored"]
    assert [one.run for one in other.batches] == ["stored", "other"]


def test_a_meter_of_a_later_step_makes_it_unknown_whether_a_clip_acts(
    equal_run: RunFolder, tmp_path: Path
) -> None:
    other = make_run(tmp_path / "other", equal=True)
    other.record("step", **step_event(STEPS + 4, clipped_high=0.125))
    clips = ({"clip_high": 1e5}, {"clip_high": 1e4})
    assert among([equal_run], *clips).verdict is SwitchVerdict.NO_EFFECT
    both = among([equal_run, other], *clips)
    assert both.verdict is SwitchVerdict.UNKNOWN
    assert "clipped_high is 0.125 in step 7 of other" in both.reason
    assert both.verdict.is_compared


def test_a_learning_rate_acts_on_the_weights_as_it_should(stored_run: RunFolder) -> None:
    one = found(stored_run, {}, {"learning_rate": 2e-3})
    assert one.verdict is SwitchVerdict.ACTS
    assert one.batches[0].difference == 0.0
    assert one.batches[0].change_scale == pytest.approx(2.0, rel=1e-3)


def test_a_kl_term_acts_from_the_second_step_on(stored_run: RunFolder) -> None:
    one = found(stored_run, {}, {"kl_weight": 0.5})
    first, second, *_ = one.batches
    assert first.difference < 1e-6
    assert second.difference > 1e-4
    assert one.verdict.is_compared


def test_a_clip_acts_from_the_second_update_on_and_the_whole_step_is_followed(
    stored_run: RunFolder,
) -> None:
    """One update alone has the same gradient under both clips."""
    many = {"updates_per_step": 4, "learning_rate": 0.01, "max_staleness": 0}
    narrow = {"clip_low": 0.05, "clip_high": 0.05}
    once = on_policy(
        stored_run, {**many, "updates_per_step": 1}, {**many, **narrow, "updates_per_step": 1}
    )
    assert once.difference == 0.0
    step = on_policy(stored_run, many, {**many, **narrow})
    assert step.num_updates == 4
    assert step.direction > 0.01


@pytest.mark.parametrize("updates", [1, 2, 4])
def test_a_pure_scale_is_seen_through_all_updates_of_a_step(
    stored_run: RunFolder, updates: int
) -> None:
    """In its own later updates, it comes to other weights: the clips and Adam are not linear."""
    old = {"normalise": "none", "updates_per_step": updates, "learning_rate": 0.01}
    one = found(stored_run, old, old | {"normalise": "rloo"})
    if updates > 1:
        assert max(batch.direction for batch in one.batches) > 0.01, "this test shows nothing"
    assert one.verdict is SwitchVerdict.SCALE_ONLY
    assert [batch.update_scale for batch in one.batches] == pytest.approx([4 / 3] * STEPS, 1e-4)


def test_a_clip_behind_a_scale_acts_though_its_first_update_is_a_pure_scale(
    stored_run: RunFolder,
) -> None:
    many = {"updates_per_step": 4, "learning_rate": 0.01, "max_staleness": 0, "normalise": "none"}
    narrow = {"clip_low": 0.05, "clip_high": 0.05, "normalise": "rloo"}
    first = on_policy(
        stored_run, {**many, "updates_per_step": 1}, {**many, **narrow, "updates_per_step": 1}
    )
    step = on_policy(stored_run, many, {**many, **narrow})
    changed = ("grpo.clip_low", "grpo.normalise")
    assert gradient_verdict([first], changed) is SwitchVerdict.SCALE_ONLY
    assert gradient_verdict([step], changed) is SwitchVerdict.ACTS


def test_another_number_of_updates_acts(stored_run: RunFolder) -> None:
    one = found(stored_run, {"learning_rate": 0.01}, {"updates_per_step": 3, "learning_rate": 0.01})
    assert one.batches[0].update_scale is None
    assert one.verdict is SwitchVerdict.ACTS


def test_the_weights_go_on_as_under_the_old_settings(stored_run: RunFolder) -> None:
    """So the second batch meets other weights, and a rate that is not 0 moves its gradient."""
    still = found(stored_run, {"learning_rate": 1e-9}, {"kl_weight": 0.5, "learning_rate": 1e-9})
    assert still.batches[1].difference < 1e-6


def test_another_optimiser_cannot_be_told_and_is_compared(stored_run: RunFolder) -> None:
    one = found(stored_run, {}, {"optimiser": "adamw_8bit"})
    assert one.verdict is SwitchVerdict.UNKNOWN
    assert one.verdict.is_compared


def test_a_norm_that_is_clipped_in_some_batches_more_than_in_others_acts(
    stored_run: RunFolder,
) -> None:
    """No learning rate does the same: the gradients grow by another factor in each batch."""
    clips, free = {"max_grad_norm": 1e-3}, {"max_grad_norm": 1e9}
    one = found(stored_run, clips, free)
    assert max(batch.direction for batch in one.batches) < 0.01
    assert one.verdict is SwitchVerdict.ACTS


def test_batches_are_of_the_first_steps_that_have_groups(tmp_path: Path) -> None:
    """In a step without signal nothing is stored."""
    run = make_run(tmp_path / "late")
    kept = [line for line in run.rollouts.read_text().splitlines(True) if '"g1-' not in line]
    run.rollouts.write_text("".join(kept))
    assert [batch.step for batch in stored_batches(run, 1)] == [2]
    assert [batch.step for batch in stored_batches(run, 5)] == [2, 3]


def test_batches_without_signal_tell_nothing_of_a_change_of_the_loss(
    stored_run: RunFolder, tmp_path: Path
) -> None:
    """A term apart from rewards has a gradient there all the same."""
    flat = make_run(tmp_path / "flat", rewards=FLAT)
    arms = ({"average": "token"}, {"average": "sequence"})
    one = found(flat, *arms)
    assert one.verdict is SwitchVerdict.UNKNOWN
    assert "no stored batch has a gradient" in one.reason
    assert among([flat, stored_run], *arms).verdict is SwitchVerdict.ACTS
    assert found(flat, {}, {"entropy_weight": 0.1}).verdict is SwitchVerdict.ACTS
