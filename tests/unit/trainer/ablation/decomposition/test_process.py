"""The process for gradients, with and without kernels that give the same sums each time."""

from collections.abc import Iterator

import pytest
import torch

from assay_trainer.ablation.decomposition import process

_ARGUMENTS = ["folder", "arm", "clip", "base", "1"]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def test_gradients_are_computed_with_kernels_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def write(*_: object) -> None:
        seen.append(torch.are_deterministic_algorithms_enabled())

    monkeypatch.setattr(process, "_write", write)
    process.main(_ARGUMENTS)
    assert seen == [True]


def test_an_operation_without_such_a_kernel_is_computed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bool] = []

    def write(*_: object) -> None:
        seen.append(torch.are_deterministic_algorithms_enabled())
        # Without a GPU, few operations refuse; this one has no other kernel anywhere.
        torch.zeros(2).put_(torch.tensor([0, 0]), torch.ones(2), accumulate=False)

    monkeypatch.setattr(process, "_write", write)
    process.main(_ARGUMENTS)
    assert seen == [True, False]


def test_another_error_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> None:
        raise RuntimeError("the shapes differ")

    monkeypatch.setattr(process, "_write", write)
    with pytest.raises(RuntimeError, match="shapes differ"):
        process.main(_ARGUMENTS)
