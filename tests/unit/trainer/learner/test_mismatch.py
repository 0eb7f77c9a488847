"""The mismatch against its definition, on numbers small enough to work out by hand."""

import math

import pytest
import torch

from assay_trainer.learner.mismatch import Mismatched, MismatchSums, check_mismatch


def test_means_and_estimates_are_over_the_masked_tokens_of_all_micro_batches() -> None:
    """r = log p_trainer - log p_engine is 0.5, -0.25 and 0."""
    sums = MismatchSums()
    ones = torch.ones(1, 2)
    sums.add(torch.tensor([[-1.0, -9.0]]), torch.tensor([[-1.5, 0.0]]), torch.tensor([[1, 0]]))
    sums.add(torch.tensor([[-1.25, -3.0]]), torch.tensor([[-1.0, -3.0]]), ones)
    sums.add(ones, -ones, torch.zeros(1, 2))
    found = sums.summary()
    assert found is not None
    assert found.num_tokens == 3
    assert found.mean_abs_nats == pytest.approx(0.25)
    assert found.max_abs_nats == pytest.approx(0.5)
    assert found.kl_k1_nats == pytest.approx(-0.25 / 3)
    k3 = (math.exp(0.5) - 1 - 0.5) + (math.exp(-0.25) - 1 + 0.25)
    assert found.kl_k3_nats == pytest.approx(k3 / 3)


def test_both_estimates_are_the_kl_of_engine_to_trainer() -> None:
    """Over all tokens with the engine's probabilities as weights, both are the KL itself."""
    engine = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    trainer = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    k1 = k3 = 0.0
    for weight, p, q in zip(engine, trainer, engine, strict=True):
        sums = MismatchSums()
        sums.add(p.log()[None], q.log()[None], torch.ones(1))
        found = sums.summary()
        assert found is not None
        k1 += float(weight) * found.kl_k1_nats
        k3 += float(weight) * found.kl_k3_nats
    expected = float((engine * (engine / trainer).log()).sum())
    assert k1 == pytest.approx(expected)
    assert k3 == pytest.approx(expected)


@pytest.mark.parametrize("value", [-0.5, math.nan, -math.inf])
def test_what_is_over_the_limit_or_no_number_ends_the_run(value: float) -> None:
    sums = MismatchSums()
    sums.add(torch.tensor([value]), torch.zeros(1), torch.ones(1))
    with pytest.raises(Mismatched, match=r"name version 7; grpo.max_mismatch_nats is 0.3"):
        check_mismatch(sums.summary(), 0.3, version=7)


def test_what_could_not_be_measured_is_no_reason_to_end() -> None:
    assert MismatchSums().summary() is None
    check_mismatch(None, 0.3, version=7)
