"""The planted changes are found; a sabotaged check is noticed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.ablation.arms import with_overrides
from assay_trainer.ablation.decomposition.controls import run_controls
from assay_trainer.ablation.decomposition.decompose import compare
from assay_trainer.ablation.decomposition.findings import RewardUnits, SwitchVerdict
from assay_trainer.ablation.decomposition.gradients import StepEffect, parts
from assay_trainer.ablation.decomposition.steps import step_effect
from assay_trainer.ablation.decomposition.verdicts import reward_finding
from assay_trainer.learner.ranks import Ranks
from tests.unit.trainer.ablation.decomposition.conftest import FLAT, make_run, run_config

pytestmark = pytest.mark.slow  # policies are loaded several times
CPU = Ranks(on_gpu=False)
ROOM = "assay_trainer.ablation.decomposition"


def missed(run: RunFolder, **grpo: Any) -> list[str]:
    found = run_controls(run_config(**grpo), [run], 1, CPU)
    assert found.work == (not [one for one in found.controls if not one.is_found])
    return [one.name for one in found.controls if not one.is_found]


@pytest.mark.parametrize(
    "grpo",
    [
        {},
        {"normalise": "none"},
        pytest.param({"normalise": "batch"}, marks=pytest.mark.nightly),
        pytest.param({"loss": "cispo"}, marks=pytest.mark.nightly),
        pytest.param({"loss": "gspo", "updates_per_step": 2}, marks=pytest.mark.nightly),
        {"updates_per_step": 8, "learning_rate": 0.1},
        pytest.param(
            {"correction": {"kind": "tis", "high": 2.0}, "max_staleness": 2},
            marks=pytest.mark.nightly,
        ),
        {"kl_weight": 0.1, "temperature": 0.7, "max_grad_norm": 0.1},
        pytest.param(
            {"entropy_weight": 0.5, "normalise": "none", "updates_per_step": 3},
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            {"overlong": {"kind": "punish", "tokens": 14}, "normalise": "none"},
            marks=pytest.mark.nightly,
        ),
    ],
    ids=str,
)
def test_every_planted_change_is_found_under_many_settings(
    stored_run: RunFolder, grpo: dict[str, Any]
) -> None:
    assert missed(stored_run, **grpo) == []


def test_a_check_that_sees_no_difference_is_noticed(
    stored_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        f"{ROOM}.decompose.parts", lambda old, new: replace(parts(old, new), difference=0.0)
    )
    assert "rewards_moved" in missed(stored_run)


def test_a_check_that_sees_differences_everywhere_is_noticed(
    stored_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = iter(range(1000))

    def noisy(*arguments: Any, **options: Any) -> StepEffect:
        """Other than the noise of a computation, it is not there when the old one is repeated."""
        effect = step_effect(*arguments, **options)
        if next(number) % 3:
            return effect
        return replace(effect, gradient_W=effect.gradient_W + torch.randn(effect.gradient_W.shape))

    monkeypatch.setattr(f"{ROOM}.decompose.step_effect", noisy)
    assert {"temperature_twice", "clip_on_policy"} <= set(missed(stored_run))


def test_a_temperature_that_is_not_the_same_is_noticed(
    stored_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(values: Any, overrides: Any) -> Any:
        changed = {k: 0.5 if k == "grpo.temperature" else v for k, v in overrides.items()}
        return with_overrides(values, changed)

    monkeypatch.setattr(f"{ROOM}.controls.with_overrides", wrong)
    assert missed(stored_run) == ["temperature_twice"]


def test_a_clip_that_acts_in_its_one_update_is_noticed(
    stored_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def off_policy(*arguments: Any, **options: Any) -> Any:
        return compare(*arguments, **{**options, "on_policy": False})

    monkeypatch.setattr(f"{ROOM}.controls.compare", off_policy)
    assert missed(stored_run) == ["clip_on_policy"]


def test_a_check_that_judges_a_scale_by_its_own_way_is_noticed(
    stored_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{ROOM}.decompose.update_parts", lambda *arguments, **options: [])
    assert missed(stored_run, updates_per_step=8, learning_rate=0.1) == ["scale_over_updates"]


def test_a_reward_rule_that_is_blind_to_units_is_noticed(
    stored_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blind(old: Sequence[float], new: Sequence[float]) -> RewardUnits:
        return reward_finding(old, new).model_copy(update={"verdict": SwitchVerdict.ACTS})

    monkeypatch.setattr(f"{ROOM}.controls.reward_finding", blind)
    assert missed(stored_run) == ["reward_times"]


def test_without_a_stored_batch_the_checks_do_not_work(
    stored_run: RunFolder, tmp_path: Any
) -> None:
    empty = RunFolder.create(tmp_path / "empty")
    assert not run_controls(run_config(), [empty], 1, CPU).work


def test_a_seed_without_signal_leaves_the_checks_to_the_next_one(
    stored_run: RunFolder, tmp_path: Any
) -> None:
    empty = RunFolder.create(tmp_path / "empty")
    flat = make_run(tmp_path / "flat", rewards=FLAT)
    found = run_controls(run_config(), [empty, flat, stored_run], 1, CPU)
    assert found.work
    assert found.run == stored_run.path.name
    assert not run_controls(run_config(), [flat], 3, CPU).controls
