import math

import pytest
import torch

from assay_inference.engines.transformers.sampling import draw, is_finite, keep_top_p


def one_row(
    logits: list[float], uniform: float, temperature: float = 1.0, top_p: float = 1.0
) -> tuple[int, float]:
    ids, logprobs = draw(
        torch.tensor([logits]),
        torch.tensor([temperature]),
        torch.tensor([top_p]),
        torch.tensor([uniform]),
    )
    return int(ids[0]), float(logprobs[0])


def test_temperature_zero_is_greedy_whatever_the_draw() -> None:
    logits = [0.0, 2.0, 1.0]
    expected = torch.tensor(logits).log_softmax(0)[1].item()
    for uniform in (0.0, 0.5, 0.999):
        token, logprob = one_row(logits, uniform, temperature=0.0)
        assert token == 1
        assert logprob == pytest.approx(expected)


def test_tokens_come_as_often_as_their_probability() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    num = 40_000
    uniform = (torch.arange(num) + 0.5) / num
    ids, _ = draw(logits.expand(num, 4), torch.ones(num), torch.ones(num), uniform)
    shares = torch.bincount(ids, minlength=4) / num
    assert torch.allclose(shares, logits.softmax(0), atol=1e-3)


def test_logprobs_are_those_of_the_temperature() -> None:
    logits = [1.0, 0.0, -1.0]
    token, logprob = one_row(logits, 0.99, temperature=2.0)
    expected = (torch.tensor(logits) / 2.0).log_softmax(0)
    assert logprob == pytest.approx(expected[token].item())


def test_top_p_keeps_the_smallest_set_that_holds_it() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.double)
    assert keep_top_p(probs, torch.tensor([0.6])).tolist() == [[0.5, 0.3, 0.0, 0.0]]
    assert keep_top_p(probs, torch.tensor([0.5])).tolist() == [[0.5, 0.0, 0.0, 0.0]]
    assert keep_top_p(probs, torch.tensor([1.0])).tolist() == probs.tolist()


def test_top_p_changes_the_draw_and_not_the_logprob() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    token, logprob = one_row(logits, 0.9999, top_p=0.6)
    assert token == 1
    assert logprob == pytest.approx(torch.tensor(0.3).log().item(), rel=1e-5)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 50) * 3
    uniform = torch.rand(6)
    temperature = torch.tensor([1.0, 0.0, 0.7, 1.0, 2.0, 1.0])
    top_p = torch.tensor([1.0, 1.0, 0.9, 0.5, 1.0, 1.0])
    together, _ = draw(logits, temperature, top_p, uniform)
    for row in range(6):
        one = slice(row, row + 1)
        alone, _ = draw(logits[one], temperature[one], top_p[one], uniform[one])
        assert alone.tolist() == together[one].tolist()


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-24])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(uniform: float) -> None:
    """Rounding must never draw a token of probability 0."""
    logits = [-torch.inf, 0.0, -torch.inf, 1.0, -torch.inf]
    assert one_row(logits, uniform)[0] in (1, 3)


def one_exact_row(
    logits: list[float], uniform: float, temperature: float, top_p: float = 1.0
) -> tuple[int, float]:
    """In double precision, as the engine asks."""
    exact = [torch.tensor([x], dtype=torch.float64) for x in (temperature, top_p, uniform)]
    ids, logprobs = draw(torch.tensor([logits]), *exact)
    return int(ids[0]), float(logprobs[0])


@pytest.mark.parametrize("temperature", [5e-324, 1e-46, 1e-40, 1e-30, 1e-9])
def test_a_temperature_near_zero_draws_among_the_largest_logits_alone(temperature: float) -> None:
    logits = [3.0, 80.0, -40.0, 80.0]
    for uniform, expected in ((0.2, 1), (0.8, 3)):
        token, logprob = one_exact_row(logits, uniform, temperature)
        assert token == expected
        assert logprob == pytest.approx(math.log(0.5))
    assert one_exact_row([1.0, 2.0], 0.5, temperature) == (1, 0.0)


@pytest.mark.parametrize("uniform", [0.0, 0.5, math.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("top_p", [1e-320, 1e-46, 0.5, 1.0])
def test_every_draw_is_of_a_token_that_may_be_drawn(uniform: float, top_p: float) -> None:
    logits = [-torch.inf, 1.0, 1.0, 1.0, -200.0, -torch.inf]
    token, logprob = one_exact_row(logits, uniform, 1.0, top_p)
    assert token in (1, 2, 3)
    assert logprob == pytest.approx(math.log(1 / 3))


@pytest.mark.parametrize(
    ("logits", "fine"),
    [
        ([0.0, -torch.inf], True),
        ([3e38, -3e38], True),
        ([torch.nan, 0.0], False),
        ([torch.inf, 0.0], False),
        ([-torch.inf, -torch.inf], False),
    ],
)
def test_logits_are_numbers_or_no_distribution(logits: list[float], fine: bool) -> None:
    assert is_finite(torch.tensor([logits, [0.0, 1.0]])) == [fine, True]
    if fine:
        assert math.isfinite(one_exact_row(logits, 0.3, 1.0)[1])
