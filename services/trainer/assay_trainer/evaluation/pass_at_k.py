"""The unbiased estimate of pass@k."""

from math import prod


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Return one task's unbiased pass@k, 1 - C(n-c, k) / C(n, k) (arXiv 2107.03374, equation 1).

    Raises:
        ValueError: fewer than k samples.
    """
    if k > num_samples:
        raise ValueError(f"pass@{k} cannot be estimated from {num_samples} samples")
    num_wrong = num_samples - num_correct
    if num_wrong < k:
        return 1.0
    return 1.0 - prod(1.0 - k / i for i in range(num_wrong + 1, num_samples + 1))
