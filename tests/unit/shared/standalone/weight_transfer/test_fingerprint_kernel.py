"""The kernel's sums are those of torch's operations, for every size of entry and shape of tile."""

from collections.abc import Callable
from unittest.mock import Mock, PropertyMock, patch

import pytest
import torch

from assay_shared.standalone.weight_transfer import fingerprint
from assay_shared.standalone.weight_transfer.fingerprint import Piece, fingerprint_sums
from tests.support.triton_interpreter import interpret

#: Below a tile (32 rows of 1024 entries), a whole one, several with rests, and vectors.
SHAPES = [(3, 5), (32, 1024), (70, 2500), (1, 4096), (4000,), (1,), (33, 3, 400), (2000, 2)]
TYPES = [torch.int8, torch.bfloat16, torch.float32, torch.float64]
CPU = torch.device("cpu")
as_on_a_gpu = patch.object(torch.Tensor, "is_cuda", PropertyMock(return_value=True))


def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return (values * 50).to(dtype)


def pieces(device: str) -> list[Piece]:
    """Return pieces of each type and shape, some from the fifth row and the eleventh column on.

    Among them are an empty one, a scalar, one not contiguous, and one at an odd address.
    """
    found: list[Piece] = []
    for dtype in TYPES:
        made = [make(shape, dtype).to(device) for shape in SHAPES]
        found += [(tensor, 5 * n, 11 * n) for n, tensor in enumerate(made)]
    tensor = make((64, 96), torch.bfloat16).to(device)
    return [
        *found, (tensor[:0], 0, 0), (tensor.T, 0, 0), (tensor[3], 3, 0), (tensor[0, 0], 0, 0),
        (tensor.reshape(-1)[1:4001].reshape(5, 800), 2**33, 2**40), (tensor, 0, 0),
    ]  # fmt: skip


def sums(device: str = "cpu") -> list[int]:
    found: list[int] = fingerprint_sums(pieces(device)).tolist()
    return found


def sums_of_the_kernel() -> list[int]:
    """Return the sums with all pieces in batches, then with one piece in each."""
    with as_on_a_gpu:
        assert fingerprint._kernel(CPU) is not None
        with patch.object(fingerprint, "BATCH_BYTES", 1):
            one_by_one = sums()
        return sums() + one_by_one


@pytest.mark.slow
def test_the_kernel_gives_the_sums_of_torch() -> None:
    assert interpret(sums_of_the_kernel) == 2 * sums()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_sums_of_the_cpu() -> None:
    assert fingerprint._kernel(torch.device("cuda", torch.cuda.current_device())) is not None
    assert sums("cuda") == sums()


def num_launches() -> int:
    from assay_shared.standalone.weight_transfer import fingerprint_kernel

    kernel = Mock(side_effect=fingerprint_kernel.sum_pieces)
    with as_on_a_gpu, patch.object(fingerprint, "_kernel", return_value=kernel):
        fingerprint_sums((make((30, 40), torch.bfloat16), 0, 0) for _ in range(50))
    return kernel.call_count


@pytest.mark.slow
def test_many_pieces_take_one_kernel() -> None:
    assert interpret(num_launches) == 1


def works_without_a_compiler() -> bool:
    from assay_shared.standalone.weight_transfer import fingerprint_kernel

    told = RuntimeError("Failed to find C compiler")
    with patch.object(fingerprint_kernel, "sum_pieces", side_effect=told):
        return fingerprint_kernel.works_on(CPU)


def works_with_another_sum() -> bool:
    from assay_shared.standalone.weight_transfer import fingerprint_kernel

    other = torch.tensor([1, 2, 3])
    with patch.object(fingerprint_kernel, "sum_pieces", return_value=other):
        return fingerprint_kernel.works_on(CPU)


@pytest.mark.slow
@pytest.mark.parametrize("host", [works_without_a_compiler, works_with_another_sum])
def test_a_kernel_that_does_not_work_is_not_used(host: Callable[[], bool]) -> None:
    assert interpret(host) is False


def test_without_triton_torch_sums_on_a_gpu() -> None:
    expected = sums()
    fingerprint._kernel.cache_clear()
    with as_on_a_gpu, patch.object(fingerprint, "find_spec", return_value=None):
        found = sums()
    fingerprint._kernel.cache_clear()
    assert found == expected
