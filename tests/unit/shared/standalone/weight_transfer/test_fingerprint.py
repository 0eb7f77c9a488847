"""The digest of all of a tensor: it adds up from pieces, and changes with whatever changes."""

import pytest
import torch

from assay_shared.standalone.weight_transfer.fingerprint import (
    Factors,
    add_up,
    as_text,
    fingerprint,
    fingerprints,
)

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.randn(37, 53, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block_entries", [1, 7, 53, 54, 1000, 2**20])
def test_it_is_the_same_in_blocks_of_any_size(
    weight: torch.Tensor, dtype: torch.dtype, block_entries: int
) -> None:
    one = weight.to(dtype)
    assert fingerprint(one, block_entries=block_entries) == fingerprint(one)
    vector = one[0]
    assert fingerprint(vector, block_entries=block_entries) == fingerprint(vector)


def test_it_is_what_its_definition_says() -> None:
    """In Python's own integers, which do not wrap."""
    tensor = torch.tensor([[1.5, -2.0], [0.0, 3.25]])
    bits = tensor.view(torch.int32)

    def odd(index: int, salt: int) -> int:
        x = ((index + 1) * 0x9E3779B97F4A7C15 + salt) % 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return (x ^ (x >> 31)) | 1

    rows, columns = 0x243F6A8885A308D3, 0x13198A2E03707344
    expected = sum(
        int(bits[r, c]) * odd(r, rows) * odd(c, columns) for r in range(2) for c in range(2)
    )
    assert fingerprint(tensor) == expected % 2**64
    assert as_text(fingerprint(tensor)) == f"{expected % 2**64:016x}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_pieces_of_rows_and_of_columns_add_up(weight: torch.Tensor, dtype: torch.dtype) -> None:
    one = weight.to(dtype)
    by_rows = [fingerprint(one[:11]), fingerprint(one[11:], first_row=11)]
    by_columns = [fingerprint(one[:, :20]), fingerprint(one[:, 20:], first_column=20)]
    assert add_up(by_rows) == add_up(by_columns) == fingerprint(one)
    fused = torch.cat([one, one + 1])
    assert fingerprint(fused[37:]) == fingerprint(one + 1), "a part of a fused tensor"


def swapped(weight: torch.Tensor) -> torch.Tensor:
    weight[[3, 8], [4, 9]] = weight[[8, 3], [9, 4]]
    return weight


def swapped_in_a_row(weight: torch.Tensor) -> torch.Tensor:
    weight[5, [1, 2]] = weight[5, [2, 1]]
    return weight


def rows_swapped(weight: torch.Tensor) -> torch.Tensor:
    return weight[[1, 0, *range(2, len(weight))]]


def transposed(weight: torch.Tensor) -> torch.Tensor:
    return weight.T


def in_another_shape(weight: torch.Tensor) -> torch.Tensor:
    return weight.reshape(53, 37)


def negative_zero(weight: torch.Tensor) -> torch.Tensor:
    weight[0, 0] = 0.0
    before = fingerprint(weight)
    weight[0, 0] = -0.0
    assert fingerprint(weight) != before
    return weight


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "change",
    [swapped, swapped_in_a_row, rows_swapped, transposed, in_another_shape, negative_zero],
)
def test_a_mix_up_is_found(weight: torch.Tensor, dtype: torch.dtype, change: object) -> None:
    one = weight.to(dtype)
    assert callable(change)
    assert fingerprint(change(one.clone())) != fingerprint(one)


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_flipped_bit_is_found(weight: torch.Tensor, dtype: torch.dtype) -> None:
    one = weight.to(dtype)
    before = fingerprint(one)
    bits = one.view(torch.int32 if dtype == torch.float32 else torch.int16)
    for bit in range(8 * one.element_size()):
        flip = torch.tensor(1).bitwise_left_shift(torch.tensor(bit)).to(bits.dtype)
        bits[17, 29] ^= flip
        assert fingerprint(one) != before, bit
        bits[17, 29] ^= flip
    assert fingerprint(one) == before


def test_tensors_of_no_and_of_three_axes_count_too() -> None:
    cube = torch.randn(3, 4, 5)
    assert fingerprint(cube) == fingerprint(cube.reshape(3, 20))
    assert fingerprint(cube.transpose(1, 2)) != fingerprint(cube)
    assert fingerprint(torch.tensor(2.5)) == fingerprint(torch.tensor([2.5]))
    assert fingerprint(torch.empty(0, 4)) == 0


def test_kept_factors_are_those_of_their_places() -> None:
    factors, device = Factors(), torch.device("cpu")
    for first, count, salt in [(0, 5, 1), (3, 5, 1), (0, 5, 2), (0, 7, 1), (0, 5, 1)]:
        expected = Factors().odd(first, count, salt, device)
        assert factors.odd(first, count, salt, device).equal(expected)
    assert not factors.odd(3, 5, 1, device).equal(factors.odd(0, 5, 1, device))


def test_many_at_once_are_each_what_they_are_alone(weight: torch.Tensor) -> None:
    pieces = [(weight, 0, 0), (weight[5:], 5, 0), (weight[:, 7:].contiguous(), 0, 7)]
    pieces += [(weight[0], 3, 0), (weight.bfloat16(), 0, 0), (weight[:, 7:], 0, 7)]
    pieces += [(weight[:0], 0, 0), (weight[:20], 0, 0), (weight[:5], 0, 0), (weight[:5], 5, 0)]
    assert fingerprints(pieces) == [fingerprint(*piece) for piece in pieces]
    assert fingerprints([]) == []
