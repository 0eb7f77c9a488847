"""Facts of a step: shares and means from sums, and means over its updates."""

from dataclasses import fields, replace

import pytest
import torch

from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.gradient_facts import NUM_SUMS, GradientFacts, over_updates
from assay_trainer.learner.objective import LossSums, Objective

PLAIN = GradientFacts(1.0, 2.0, 3.0, 0.0, 0.1, 0.2, num_read=10)


def objective(**changes: object) -> Objective:
    return Objective.of(GRPOConfig.model_validate({"steps": 1} | changes))


def sums(num_sampled: int, **values: float) -> torch.Tensor:
    found = [values.get(one.name, 0.0) for one in fields(LossSums)]
    return torch.tensor([*found, num_sampled, 100], dtype=torch.float64)


def test_sums_become_shares_of_the_sampled_tokens() -> None:
    found = sums(
        20,
        loss=0.5,
        entropy=40,
        kl=2,
        clipped_low=1,
        clipped_high=2,
        masked=3,
        truncated=4,
        importance=25,
        policy_gradient=3,
        kl_gradient=1,
    )
    assert len(found) == NUM_SUMS
    facts = GradientFacts.of(found, 7.0, objective(kl_weight=0.1, correction="tis"))
    assert (facts.loss, facts.grad_norm, facts.num_read) == (0.5, 7.0, 100)
    assert (facts.entropy, facts.kl) == (2.0, 0.1)
    assert (facts.clipped_low, facts.clipped_high) == (0.05, 0.1)
    assert (facts.masked_share, facts.truncated_weight_share) == (0.15, 0.2)
    assert facts.importance_weight_mean == 1.25
    assert facts.kl_gradient_share == 0.25


def test_what_is_not_there_has_no_figure() -> None:
    facts = GradientFacts.of(sums(20, policy_gradient=3, importance=25), 7.0, objective())
    assert facts.kl_gradient_share is None
    assert facts.importance_weight_mean is None
    empty = GradientFacts.of(sums(0), 0.0, objective(kl_weight=0.1))
    assert (empty.entropy, empty.token_weight_spread, empty.kl_gradient_share) == (0.0, None, None)


def test_the_spread_is_the_deviation_over_the_mean() -> None:
    weights = torch.tensor([1.0, 1.0, 4.0], dtype=torch.float64)
    found = sums(3, weight=float(weights.sum()), weight_squares=float(weights.square().sum()))
    facts = GradientFacts.of(found, 0.0, objective())
    expected = float(weights.std(correction=0) / weights.mean())
    assert facts.token_weight_spread == pytest.approx(expected)


def test_a_steps_facts_are_means_over_its_updates_and_tokens_are_summed() -> None:
    second = replace(PLAIN, loss=3.0, clipped_high=0.6, num_read=10, kl_gradient_share=0.5)
    found = over_updates([PLAIN, second])
    assert found.loss == 2.0
    assert found.clipped_high == pytest.approx(0.4)
    assert found.num_read == 20
    assert found.kl_gradient_share == 0.5, "of the updates that have one"
    assert found.importance_weight_mean is None
    assert over_updates([PLAIN]) == PLAIN
