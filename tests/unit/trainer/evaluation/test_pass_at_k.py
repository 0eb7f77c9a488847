import itertools
import random

import pytest

from assay_trainer.evaluation.pass_at_k import pass_at_k


def test_pass_at_k_equals_counting_every_subset() -> None:
    for n, c, k in itertools.product(range(1, 7), range(7), range(1, 7)):
        if c <= n and k <= n:
            samples = [True] * c + [False] * (n - c)
            subsets = list(itertools.combinations(samples, k))
            expected = sum(any(subset) for subset in subsets) / len(subsets)
            assert pass_at_k(n, c, k) == pytest.approx(expected)


def test_pass_at_k_needs_k_samples() -> None:
    with pytest.raises(ValueError, match="pass@5 cannot be estimated from 4 samples"):
        pass_at_k(4, 4, 5)


@pytest.mark.promise("evaluation is honest: test data cannot be trained on, and pass@k is unbiased")
def test_pass_at_k_is_unbiased_where_best_of_n_is_not() -> None:
    rng = random.Random(0)
    p, n, k = 0.3, 4, 2
    draws = [sum(rng.random() < p for _ in range(n)) for _ in range(20_000)]
    truth = 1 - (1 - p) ** k
    assert sum(pass_at_k(n, c, k) for c in draws) / len(draws) == pytest.approx(truth, abs=0.01)
