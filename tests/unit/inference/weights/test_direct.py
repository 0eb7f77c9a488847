"""Weights from a trainer's memory: announced, received and held in full."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from assay_inference.weights.attest import Whole, compare_whole
from assay_inference.weights.checkpoint import WorkerPlace
from assay_inference.weights.direct import (
    call,
    check_arrival,
    check_manifest,
    compare_with_manifest,
)
from assay_inference.weights.full_digest import file_fingerprint
from assay_inference.weights.safetensors import Tensor, read_layout
from assay_shared.errors import Unreachable, WeightsRefused
from assay_shared.standalone.weight_transfer.fingerprint import as_text, fingerprint
from assay_shared.standalone.weight_transfer.manifest import ManifestEntry, digest_of
from assay_shared.standalone.weight_transfer.sample import Piece
from assay_shared.types import DirectWeights, PolicyVersion, TensorSpec, WeightReceiver

ON_CPU = WeightReceiver(devices=("cpu",), dtype="float32")
Found = tuple[list[int], str]


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return {
        "a.weight": torch.randn(8, 6, generator=random),
        "b.weight": torch.randn(4, generator=random),
    }


@pytest.fixture
def layout(weights: dict[str, torch.Tensor], tmp_path: Path) -> dict[str, Tensor]:
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    return read_layout(tmp_path)


def announced(weights: dict[str, torch.Tensor]) -> tuple[DirectWeights, PolicyVersion]:
    entries = [
        ManifestEntry(name, tuple(tensor.shape), "float32", as_text(fingerprint(tensor)))
        for name, tensor in weights.items()
    ]
    source = DirectWeights(
        transport="gloo",
        host="127.0.0.1",
        port=1,
        token="t" * 32,
        announcement=1,
        bucket_bytes=1000,
        tensors=tuple(TensorSpec.model_validate(entry._asdict()) for entry in entries),
    )
    return source, PolicyVersion(version=1, digest=digest_of(entries))


def piece_of(
    tensor: torch.Tensor, rows: slice = slice(None), columns: slice = slice(None)
) -> Found:
    matrix = tensor.reshape(tensor.shape[0], -1)
    held = matrix[rows, columns]
    piece = Piece(rows.start or 0, held.shape[0], columns.start or 0, held.shape[1])
    return list(piece), as_text(fingerprint(held, piece.first_row, piece.first_column))


def test_a_manifest_that_fits_is_taken(
    weights: dict[str, torch.Tensor], layout: dict[str, Tensor]
) -> None:
    check_manifest(*announced(weights), layout, ON_CPU)


@pytest.mark.parametrize("what", ["new", "missing", "shape", "dtype", "digest", "ipc"])
def test_a_manifest_that_does_not_is_refused(
    weights: dict[str, torch.Tensor], layout: dict[str, Tensor], what: str
) -> None:
    receiver, message = ON_CPU, what
    if what == "new":
        weights["c.weight"] = torch.zeros(1)
    elif what == "missing":
        del weights["b.weight"]
    elif what == "shape":
        weights["b.weight"], message = torch.zeros(5), "another architecture"
    elif what == "dtype":
        receiver, message = WeightReceiver(devices=("cpu",), dtype="bfloat16"), "keeps weights in"
    source, policy = announced(weights)
    if what == "digest":
        policy = policy.model_copy(update={"digest": "other"})
    elif what == "ipc":
        source = source.model_copy(update={"transport": "ipc"})
        receiver = WeightReceiver(devices=("GPU-1", "GPU-2"), dtype="float32")
    with pytest.raises(WeightsRefused, match=message):
        check_manifest(source, policy, layout, receiver)


def test_several_workers_on_one_gpu_are_reached_by_ipc(
    weights: dict[str, torch.Tensor], layout: dict[str, Tensor]
) -> None:
    source, policy = announced(weights)
    source = source.model_copy(update={"transport": "ipc"})
    receiver = WeightReceiver(devices=("GPU-1", "GPU-1"), dtype="float32")
    check_manifest(source, policy, layout, receiver)


def test_the_workers_of_one_of_several_engines_come_after_those_before_it(
    weights: dict[str, torch.Tensor],
) -> None:
    source, _ = announced(weights)
    alone = call(source, 2)
    assert (alone["first_worker"], alone["num_workers"]) == (0, 2)
    third = call(source, 2, WorkerPlace(4, 6, lambda error: None))
    assert (third["first_worker"], third["num_workers"]) == (4, 6)


def test_pieces_of_several_workers_add_up_and_copies_have_to_be_the_same(
    weights: dict[str, torch.Tensor],
) -> None:
    a, b = weights.values()
    expected = {
        name: Whole(tuple(tensor.shape), as_text(fingerprint(tensor)))
        for name, tensor in weights.items()
    }
    by_rows = [
        {"a.weight": piece_of(a, slice(0, 5)), "b.weight": piece_of(b)},
        {"a.weight": piece_of(a, slice(5, 8)), "b.weight": piece_of(b)},
    ]
    assert compare_whole(expected, by_rows) == (set(weights), set())
    by_columns = [
        {"a.weight": piece_of(a, columns=slice(0, 2))},
        {"a.weight": piece_of(a, columns=slice(2, 6))},
    ]
    assert compare_whole(expected, by_columns) == ({"a.weight"}, set())
    assert compare_whole(expected, by_rows[:1])[1] == {"a.weight"}, "some rows are nowhere"
    by_rows[1]["b.weight"] = piece_of(b + 1)
    assert compare_whole(expected, by_rows)[1] == {"b.weight"}, "copies differ"
    swapped = [{"a.weight": piece_of(a.flip(0))}]
    assert compare_whole(expected, swapped)[1] == {"a.weight"}


def test_what_differs_in_the_engine_is_refused(weights: dict[str, torch.Tensor]) -> None:
    source, _ = announced(weights)
    a, b = weights.values()
    held = [{"fingerprints": {"b.weight": piece_of(b)}, "sampled": ["a.weight"]}]
    came = [{"a.weight": [[0, 8, 0, 6], "sample"]}]
    kept = [{"a.weight": [[0, 8, 0, 6], ["sample", "sample"]]}]
    assert compare_with_manifest(source, held, came, kept) == (2, 2)
    stale = [{"a.weight": [[0, 8, 0, 6], ["sample", "another"]]}]
    with pytest.raises(WeightsRefused, match=r"a\.weight differs"):
        compare_with_manifest(source, held, came, stale)
    held[0]["fingerprints"] = {"b.weight": piece_of(b * 2)}
    with pytest.raises(WeightsRefused, match=r"b\.weight differs"):
        compare_with_manifest(source, held, came, kept)
    with pytest.raises(WeightsRefused, match="none of the engine's weights"):
        compare_with_manifest(source, [{"fingerprints": {}, "sampled": []}], [{}], [{}])
    assert a.shape == (8, 6)


def test_a_worker_that_got_nothing_is_refused_and_one_that_hangs_is_lost() -> None:
    well: dict[str, object] = {"samples": {}}
    check_arrival([well, well])
    with pytest.raises(WeightsRefused, match="did not arrive: the trainer is gone"):
        check_arrival([well, {"failure": "the trainer is gone", "is_hung": False}])
    with pytest.raises(Unreachable, match="hangs"):
        check_arrival([{"failure": "late", "is_hung": False}, {"failure": "x", "is_hung": True}])


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kept", ["float32", "bfloat16", "float16"])
def test_a_file_has_the_fingerprint_of_what_an_engine_makes_of_it(
    tmp_path: Path, stored: torch.dtype, kept: str
) -> None:
    tensor = torch.randn(33, 17).to(stored)
    save_file({"w": tensor, "v": tensor[0].clone()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    layout = read_layout(tmp_path)
    dtype = getattr(torch, kept)
    for name, expected in load_file(tmp_path / "model.safetensors").items():
        assert file_fingerprint(layout[name], kept) == as_text(fingerprint(expected.to(dtype)))
