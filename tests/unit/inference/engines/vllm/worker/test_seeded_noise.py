"""The noise of a seeded request: Philox's numbers by its paper, the same in any batch."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from tests.support.triton_interpreter import interpret

SEED, DRAW = 2**40 + 12345, 3
COLUMNS = 5000
_MULTIPLIERS, _KEY_STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_WORD = 2**32 - 1


def philox(seed: int, column: int, draw: int) -> int:
    """Return the first word of Philox 4x32 with 10 rounds (Salmon et al., 2011, section 4.3)."""
    keys, counter = [seed & _WORD, seed >> 32], [column, draw, 0, 0]
    for _ in range(10):
        left, right = (
            m * value for m, value in zip(_MULTIPLIERS, (counter[0], counter[2]), strict=True)
        )
        counter = [
            (right >> 32) ^ counter[1] ^ keys[0],
            right & _WORD,
            (left >> 32) ^ counter[3] ^ keys[1],
            left & _WORD,
        ]
        keys = [(key + step) & _WORD for key, step in zip(keys, _KEY_STEPS, strict=True)]
    return counter[0]


def noise_of_two_batches() -> list[list[list[float]]]:
    """Return two batches' noise: the seeded request is row 1 of the first, row 0 of the second."""
    import torch

    from assay_inference.engines.vllm.worker.seeded_noise import fill

    batches = []
    for seeds, draws in (({1: SEED, 2: SEED}, {1: DRAW, 2: DRAW + 1}), ({0: SEED}, {0: DRAW})):
        noise_BV = torch.full((len(seeds) + 1, COLUMNS), -1.0)
        fill(noise_BV, seeds, draws)
        batches.append(noise_BV.tolist())
    return batches


@pytest.mark.slow
def test_noise_is_the_papers_and_depends_on_seed_and_draw_alone() -> None:
    first, second = interpret(noise_of_two_batches)
    assert first[0] == second[1] == [-1.0] * COLUMNS, "rows without a seed stay"
    assert first[1] == second[0], "the same draw in another batch"
    assert np.mean(np.isclose(first[1], first[2])) < 0.01, "another draw"
    for noise in (first[1], first[2]):
        assert kstest(noise, "expon").pvalue > 0.01
    for column in (0, 1, 2047, 2048, COLUMNS - 1):
        word = philox(SEED, column, DRAW)
        # Triton takes the word as a signed number, and a negative one as its complement.
        uniform = (word if word < 2**31 else _WORD - word) * 4.6566127342e-10
        assert first[1][column] == pytest.approx(max(-math.log(1 - uniform), 1e-10), rel=1e-3)
