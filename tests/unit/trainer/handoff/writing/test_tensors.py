"""Weights written again: in bounded files, in the asked type, and never with NaN."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from assay_shared.errors import WeightsRefused
from assay_shared.weights.checkpoint import file_digest, weight_files
from assay_trainer.handoff.writing.tensors import (
    NotHandedOff,
    main_dtype,
    read_weights,
    write_weights,
)

TIED = {"tie_word_embeddings": True}


def make(folder: Path, **tensors: torch.Tensor) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    named = {name.replace("__", "."): one for name, one in tensors.items()}
    save_file(named, folder / "model.safetensors")
    return folder


def target(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def read(folder: Path) -> dict[str, torch.Tensor]:
    return {name: one for file in weight_files(folder) for name, one in load_file(file).items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_keep_their_bits_in_several_files(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {f"layer{n}": torch.randn(10, 10).to(dtype) for n in range(5)}
    source = make(tmp_path / "in", **tensors)
    into = target(tmp_path / "out")
    written = write_weights(read_weights(source, None), {}, into, file_bytes=900)
    found = read(into)
    assert all(
        found[name].equal(one) and found[name].dtype == dtype for name, one in tensors.items()
    )
    files = weight_files(into)
    assert len(files) == (3 if dtype == torch.float32 else 2)
    assert all(sum(one.nbytes for one in load_file(file).values()) <= 900 for file in files)
    assert {file.name: file_digest(file) for file in files} == written.digests
    index = json.loads((into / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == written.num_bytes == 500 * dtype.itemsize
    assert not written.is_rounded


def test_a_type_can_be_chosen(tmp_path: Path) -> None:
    values = torch.randn(300, 7)
    source = make(tmp_path / "in", a=values, number=torch.tensor([3]))
    into = target(tmp_path / "out")
    written = write_weights(read_weights(source, "bfloat16"), {}, into)
    assert read(into)["a"].equal(values.to(torch.bfloat16))
    assert read(into)["number"].dtype == torch.int64
    assert written.is_rounded


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_refused_by_name(tmp_path: Path, value: float) -> None:
    source = make(tmp_path / "in", good=torch.ones(3), bad=torch.tensor([1.0, value]))
    with pytest.raises(WeightsRefused, match=r"model\.safetensors: bad has entries"):
        write_weights(read_weights(source, None), {}, target(tmp_path / "out"))


def test_a_type_that_is_too_small_for_the_weights_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "in", a=torch.tensor([1e6]))
    with pytest.raises(WeightsRefused, match="--dtype: .*too large for float16"):
        write_weights(read_weights(source, "float16"), {}, target(tmp_path / "out"))


def test_config_json_gets_the_type_of_most_weights(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(9).bfloat16(), "norm": torch.ones(2), "q": torch.ones(20).byte()}
    source = make(tmp_path / "in", **tensors)
    written = write_weights(read_weights(source, None), {}, target(tmp_path / "out"))
    assert main_dtype(written, {}) == "bfloat16"
    packed = {"quantization_config": {"bits": 4}, "torch_dtype": "float16"}
    assert main_dtype(written, packed) == "float16"


def test_a_tied_head_is_written_once(tmp_path: Path) -> None:
    same = torch.randn(4, 3)
    source = make(tmp_path / "in", model__embed_tokens__weight=same, lm_head__weight=same.clone())
    into = target(tmp_path / "out")
    written = write_weights(read_weights(source, None), TIED, into)
    assert set(read(into)) == {"model.embed_tokens.weight"}
    assert (written.num_entries, written.num_source_entries) == (12, 24)


def test_a_tied_head_with_other_values_is_refused(tmp_path: Path) -> None:
    tensors = {
        "model__embed_tokens__weight": torch.ones(4, 3),
        "lm_head__weight": torch.zeros(4, 3),
    }
    source = make(tmp_path / "in", **tensors)
    with pytest.raises(WeightsRefused, match="their values differ"):
        write_weights(read_weights(source, None), TIED, target(tmp_path / "out"))


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "in", a=torch.ones(100))
    file = source / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(WeightsRefused, match=r"model\.safetensors is cut off"):
        read_weights(source, None)


def test_a_disk_without_room_is_told_with_the_file(tmp_path: Path) -> None:
    source = make(tmp_path / "in", a=torch.ones(100_000))
    into = target(tmp_path / "out")
    (into / "model.safetensors").symlink_to("/dev/full")
    with pytest.raises(NotHandedOff, match=r"model\.safetensors could not be written: No space"):
        write_weights(read_weights(source, None), {}, into)
