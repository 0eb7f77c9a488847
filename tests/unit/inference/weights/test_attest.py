"""Attestation: reading of the files, comparison, refusal."""

import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from assay_inference.engines.child.process import RestartBudget
from assay_inference.weights.attest import Arithmetic, compare_digests, compare_probe
from assay_inference.weights.safetensors import check_same_layout, read_layout, rounded
from assay_shared.errors import WeightsRefused
from assay_shared.standalone.weight_transfer.sample import Piece, SamplePlan, digest_of
from assay_shared.types import LogprobProbe
from tests.support.policies import TINY, make_policy_folder

Answers = dict[str, tuple[list[int], list[str]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "v0"
    make_policy_folder(folder)
    return folder


def truthful(folder: Path, dtype: torch.dtype, num_shards: int = 1) -> list[Answers]:
    """Return the answers of workers with a share of the rows each, without the engine's code."""
    (file,) = folder.glob("*.safetensors")
    workers: list[Answers] = [{} for _ in range(num_shards)]
    for name, tensor in load_file(file).items():
        matrix = tensor.to(dtype).float().reshape(tensor.shape[0], -1)
        num_rows = matrix.shape[0] // num_shards
        for rank, worker in enumerate(workers):
            piece = Piece(rank * num_rows, num_rows, 0, matrix.shape[1])
            plan = SamplePlan.of(name, piece, "seed")
            held = matrix[piece.first_row : piece.first_row + num_rows]
            values = held[plan.rows][:, plan.columns].flatten().tolist()
            worker[name] = (list(piece), [digest_of(values)])
    return workers


@pytest.mark.parametrize("num_shards", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_that_landed_are_found_the_same(
    folder: Path, dtype: torch.dtype, num_shards: int
) -> None:
    layout = read_layout(folder)
    workers = truthful(folder, dtype, num_shards)
    name = str(dtype).removeprefix("torch.")
    assert compare_digests(layout, workers, "seed", name) == (len(layout), len(layout))


def test_checkpoints_in_bfloat16_are_read(folder: Path, tmp_path: Path) -> None:
    (file,) = folder.glob("*.safetensors")
    shutil.copy(folder / "config.json", tmp_path)
    tensors = {k: v.to(torch.bfloat16) for k, v in load_file(file).items()}
    save_file(tensors, tmp_path / "model.safetensors")
    workers = truthful(tmp_path, torch.bfloat16)
    assert compare_digests(read_layout(tmp_path), workers, "seed", "bfloat16")


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.promise("weights are proven to have landed")
def test_one_copy_of_one_tensor_that_is_old_is_enough_to_refuse(folder: Path, place: int) -> None:
    workers = truthful(folder, torch.float32)
    piece, (digest,) = workers[0]["model.embed_tokens.weight"]
    copies = [digest, digest]
    copies[place] = digest_of([1.0])
    workers[0]["model.embed_tokens.weight"] = (piece, copies)
    with pytest.raises(WeightsRefused, match=r"model.embed_tokens.weight differs"):
        compare_digests(read_layout(folder), workers, "seed", "float32")


def test_an_engine_of_which_nothing_is_known_is_refused(folder: Path) -> None:
    with pytest.raises(WeightsRefused, match="none of the engine's weights"):
        compare_digests(read_layout(folder), [{}], "seed", "float32")


def test_rounding_to_bfloat16_is_torchs() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    expected = values.to(torch.bfloat16).float().tolist()
    assert rounded(values.numpy().astype(np.float32)[None], "bfloat16") == expected


@pytest.mark.parametrize("keep", [4, 100, -1])
def test_a_file_that_is_cut_off_is_refused(folder: Path, tmp_path: Path, keep: int) -> None:
    shutil.copytree(folder, tmp_path / "cut")
    (file,) = (tmp_path / "cut").glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(WeightsRefused, match="cut off"):
        read_layout(tmp_path / "cut")


def test_another_architecture_is_refused(folder: Path, tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "wide", config=TINY.model_copy(update={"intermediate_size": 96}))
    with pytest.raises(WeightsRefused, match="this is another architecture"):
        check_same_layout(read_layout(folder), read_layout(tmp_path / "wide"))


@pytest.mark.parametrize("found", [(-1.0, -2.2), (-1.0, float("nan"))])
def test_a_probe_outside_its_tolerance_is_refused(found: tuple[float, ...]) -> None:
    probe = LogprobProbe(token_ids=(1, 2, 3), logprobs=(-1.0, -2.0), tolerance=0.1)
    with pytest.raises(WeightsRefused, match="log-probabilities differ"):
        compare_probe(probe, found, Arithmetic("bfloat16", on_gpu=True))
    found = (-1.0, -2.05)
    assert compare_probe(probe, found, Arithmetic("float32", on_gpu=False)) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("trainer", "engine", "on_gpu", "tolerance"),
    [
        ("float32", "float32", False, 5e-3),
        ("float32", "float32", True, 5e-2),
        ("float32", "bfloat16", True, 0.5),
        ("bfloat16", "float32", False, 0.5),
        ("float16", "float16", True, 0.5),
    ],
)
def test_without_a_tolerance_the_coarser_arithmetic_decides(
    trainer: Literal["float32", "bfloat16", "float16"],
    engine: str,
    on_gpu: bool,
    tolerance: float,
) -> None:
    probe = LogprobProbe(token_ids=(1, 2), logprobs=(-1.0,), dtype=trainer)
    arithmetic = Arithmetic(engine, on_gpu)
    compare_probe(probe, (-1.0 - 0.9 * tolerance,), arithmetic)
    with pytest.raises(WeightsRefused):
        compare_probe(probe, (-1.0 - 1.1 * tolerance,), arithmetic)


@pytest.mark.parametrize(
    ("differences", "is_refused"),
    [((0.6, 0.6), False), ((0.6, 0.6, 0.6), True), ((2.1,), True), ((float("nan"),), True)],
)
def test_in_16_bits_two_of_128_tokens_may_differ_by_more(
    differences: tuple[float, ...], is_refused: bool
) -> None:
    probe = LogprobProbe(token_ids=tuple(range(129)), logprobs=(-0.7,) * 128)
    found = [*(-0.7 - one for one in differences), *[-0.71] * (128 - len(differences))]
    if is_refused:
        with pytest.raises(WeightsRefused):
            compare_probe(probe, found, Arithmetic("bfloat16", on_gpu=True))
        return
    assert compare_probe(probe, found, Arithmetic("bfloat16", on_gpu=True)) == pytest.approx(0.6)
    with pytest.raises(WeightsRefused):
        compare_probe(probe, found, Arithmetic("float32", on_gpu=True))


def test_restarts_end_with_their_budget() -> None:
    budget = RestartBudget(max_restarts=3, window_s=1000)
    assert [budget.next_wait_s() for _ in range(4)] == [0.5, 1.0, 2.0, None]
