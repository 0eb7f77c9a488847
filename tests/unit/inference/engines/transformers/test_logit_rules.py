"""Rules and filters against transformers' own processors, and vLLM's documented formulas."""

import math
from typing import Any

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from assay_inference.engines.transformers.logit_rules import (
    Context,
    apply_rules,
    keep_min_p,
    keep_top_k,
    most_probable,
)
from assay_inference.engines.transformers.sampling import draw
from assay_shared.types import SamplingParams

NUM_ROWS, SIZE = 40, 500
PROMPT, DRAWN = [3, 7, 7, 499], [11, 3, 11, 250]
ENDS = frozenset({1, 2})


@pytest.fixture(scope="module")
def logits() -> torch.Tensor:
    return 4 * torch.randn(NUM_ROWS, SIZE, generator=torch.Generator().manual_seed(0))


def ruled(logits: torch.Tensor, **rules: Any) -> torch.Tensor:
    context = Context(SamplingParams(**rules), PROMPT, DRAWN, ENDS)
    return torch.stack([apply_rules(row, context) for row in logits])


def test_without_rules_logits_are_left_alone(logits: torch.Tensor) -> None:
    assert ruled(logits, top_k=5, min_p=0.1, top_p=0.5, temperature=0.3).equal(logits)


@pytest.mark.parametrize("penalty", [0.5, 1.3, 5.0])
def test_the_repetition_penalty_is_transformers(logits: torch.Tensor, penalty: float) -> None:
    ids = torch.tensor([PROMPT + DRAWN] * NUM_ROWS)
    expected = RepetitionPenaltyLogitsProcessor(penalty)(ids, logits.clone())
    assert torch.equal(ruled(logits, repetition_penalty=penalty), expected)


def test_presence_and_frequency_are_the_documented_formula(logits: torch.Tensor) -> None:
    """logit -= frequency * count + presence * (count > 0), over sampled tokens, not the prompt."""
    found = ruled(logits, frequency_penalty=0.7, presence_penalty=-1.5)
    expected = logits.clone()
    for token_id in set(DRAWN):
        expected[:, token_id] -= 0.7 * DRAWN.count(token_id) - 1.5
    assert torch.allclose(found, expected, atol=1e-6)


def test_logit_bias_is_transformers(logits: torch.Tensor) -> None:
    bias = {5: -100.0, 11: 2.5, 499: 0.25}
    processor = SequenceBiasLogitsProcessor([[[token], value] for token, value in bias.items()])
    expected = processor(torch.tensor([PROMPT] * NUM_ROWS), logits.clone())
    assert torch.allclose(ruled(logits, logit_bias=bias), expected)


@pytest.mark.parametrize("least", [3, 4, 5, 9])
def test_min_tokens_rule_the_ends_out_as_transformers_does(
    logits: torch.Tensor, least: int
) -> None:
    ids = torch.tensor([PROMPT + DRAWN] * NUM_ROWS)
    processor = MinNewTokensLengthLogitsProcessor(len(PROMPT), least, sorted(ENDS))
    assert torch.equal(ruled(logits, min_tokens=least), processor(ids, logits.clone()))


def test_rules_follow_each_other_in_the_documented_order(logits: torch.Tensor) -> None:
    found = ruled(logits, logit_bias={3: 10.0}, repetition_penalty=2.0, frequency_penalty=0.5)
    raised = logits[:, 3] + 10
    expected = torch.where(raised > 0, raised / 2, raised * 2) - 0.5
    assert torch.allclose(found[:, 3], expected)


@pytest.mark.parametrize("top_k", [1, 2, 50, 499, 500, 9999])
def test_top_k_is_transformers(logits: torch.Tensor, top_k: int) -> None:
    kept = keep_top_k(logits.softmax(-1), torch.full((NUM_ROWS,), top_k))
    expected = TopKLogitsWarper(top_k)(None, logits.clone())
    assert torch.equal(kept > 0, ~expected.isneginf())


def test_top_k_of_each_row_is_its_own_and_0_keeps_all(logits: torch.Tensor) -> None:
    kept = keep_top_k(logits[:3].softmax(-1), torch.tensor([0, 1, 7]))
    assert (kept > 0).sum(dim=-1).tolist() == [SIZE, 1, 7]


@pytest.mark.parametrize("min_p", [0.001, 0.05, 0.5, 1.0])
def test_min_p_is_transformers(logits: torch.Tensor, min_p: float) -> None:
    kept = keep_min_p(logits.softmax(-1), torch.full((NUM_ROWS,), min_p))
    warper: Any = MinPLogitsWarper(min_p)
    expected = warper(None, logits.clone())
    assert torch.equal(kept > 0, ~expected.isneginf())


def test_draws_have_the_distribution_of_transformers_warpers_in_the_same_order() -> None:
    logits_V = torch.tensor([2.0, 1.5, 1.4, 1.0, 0.3, -0.5, -1.0, -4.0])
    number = 20_000
    tokens, logprobs = draw(
        logits_V.repeat(number, 1),
        torch.full((number,), 1.4),
        torch.full((number,), 0.8),
        (torch.arange(number) + 0.5) / number,
        torch.full((number,), 6),
        torch.full((number,), 0.1),
    )
    chain: Any = LogitsProcessorList(
        [
            TemperatureLogitsWarper(1.4),
            MinPLogitsWarper(0.1),
            TopKLogitsWarper(6),
            TopPLogitsWarper(0.8),
        ]
    )
    expected = chain(torch.zeros(1, 1, dtype=torch.long), logits_V[None].clone()).softmax(-1)[0]
    shares = torch.bincount(tokens, minlength=8) / number
    assert torch.allclose(shares, expected, atol=2 / number)
    plain = (logits_V / 1.4).log_softmax(-1)[tokens]
    assert torch.allclose(logprobs, plain), "filters change no log-probability"


def test_the_most_probable_are_told_at_the_least_temperature() -> None:
    top = most_probable(torch.tensor([3.0, 1.0, 3.0]), 1e-45, 2)
    assert [token for token, _ in top] == [0, 2]
    assert [logprob for _, logprob in top] == pytest.approx([math.log(0.5)] * 2)


def test_the_most_probable_leave_out_what_is_excluded() -> None:
    logits = torch.tensor([0.0, 2.0, -torch.inf, 1.0])
    top = most_probable(logits, 2.0, 20)
    assert [token for token, _ in top] == [1, 3, 0]
    expected = (logits / 2).log_softmax(-1)
    assert [value for _, value in top] == pytest.approx(expected[[1, 3, 0]].tolist())
    assert most_probable(logits, 0.0, 1)[0][1] == pytest.approx(float(logits.log_softmax(-1)[1]))
