"""The kernel's sum is that of torch's operations, for every size of entry and shape of tile."""

from unittest.mock import PropertyMock, patch

import pytest
import torch

from assay_shared.standalone.weight_transfer import fingerprint
from assay_shared.standalone.weight_transfer.fingerprint import fingerprint_sum
from tests.support.triton_interpreter import interpret

#: Below a tile (32 rows of 1024 entries), a whole one, several with rests, and vectors.
SHAPES = [(3, 5), (32, 1024), (70, 2500), (1, 4096), (4000,), (1,), (33, 3, 400), (2000, 2)]
TYPES = [torch.int8, torch.bfloat16, torch.float32, torch.float64]
CPU = torch.device("cpu")
as_on_a_gpu = patch.object(torch.Tensor, "is_cuda", PropertyMock(return_value=True))


def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return (values * 50).to(dtype)


def sums() -> list[int]:
    """Return the sums by shapes, then types, from the fifth row and the eleventh column on."""
    return [int(fingerprint_sum(make(s, t), 5, 11)) for s in SHAPES for t in TYPES]


def sums_of_the_kernel() -> list[int]:
    with as_on_a_gpu:
        assert fingerprint._kernel(CPU) is not None
        return sums()


@pytest.mark.slow
def test_the_kernel_gives_the_sum_of_torch() -> None:
    assert interpret(sums_of_the_kernel) == sums()


def works_without_a_compiler() -> bool:
    from assay_shared.standalone.weight_transfer import fingerprint_kernel

    told = RuntimeError("Failed to find C compiler")
    with patch.object(fingerprint_kernel, "sum_products", side_effect=told):
        return fingerprint_kernel.works_on(CPU)


@pytest.mark.slow
def test_a_host_without_a_compiler_has_no_kernel() -> None:
    assert interpret(works_without_a_compiler) is False


def test_without_triton_torch_sums_on_a_gpu() -> None:
    fingerprint._kernel.cache_clear()
    with as_on_a_gpu, patch.object(fingerprint, "find_spec", return_value=None):
        found = sums()
    fingerprint._kernel.cache_clear()
    assert found == sums()
