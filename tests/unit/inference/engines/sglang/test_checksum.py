"""Checksums of SGLang's own tensors, from a checkpoint's."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from assay_inference.engines.sglang.checksum import (
    compare_all_checksums,
    compare_checksums,
    gpu_checksum,
)
from assay_inference.weights.safetensors import read_layout
from assay_shared.errors import WeightsRefused
from tests.support.policies import make_policy_folder

#: By SGLang's own Triton kernels (0.5.23, `gpu_tensor_hash`), of the bytes `content` makes.
BY_TRITON = {
    4: "b2dd353a7c0ed360",
    10: "7991144ccbc1fe94",
    1000: "26c2ba7bc70be9dc",
    32768: "dbbe0ffe3ef7bcb0",
    100_003: "ae000750844afd8a",
    3_000_000: "3c58b456600cbd05",
}


def content(num_bytes: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return ((np.arange(num_bytes, dtype=np.uint64) * 2654435761 >> 7) & 255).astype(np.uint8)


@pytest.mark.parametrize(("num_bytes", "expected"), BY_TRITON.items())
def test_a_gpu_checksum_is_what_sglangs_kernels_say(num_bytes: int, expected: str) -> None:
    assert gpu_checksum(content(num_bytes)) == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "v0"
    make_policy_folder(folder)
    return folder


def held(folder: Path, dtype: torch.dtype, *, pad_rows: int = 0) -> dict[str, str]:
    """Return the answer of an engine on a CPU with tensors kept as SGLang keeps them."""
    (file,) = folder.glob("*.safetensors")
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(file).items()}
    fused: dict[str, list[torch.Tensor]] = {}
    for whole, parts in (("qkv_proj", "qkv"), ("gate_up_proj", ("gate", "up"))):
        for name in [n for n in tensors if f".{parts[0]}_proj." in n]:
            names = [name.replace(f"{parts[0]}_proj", f"{part}_proj") for part in parts]
            fused[name.replace(f"{parts[0]}_proj", whole)] = [tensors.pop(n) for n in names]
    whole_tensors = tensors | {name: torch.cat(parts) for name, parts in fused.items()}
    embedding = whole_tensors["model.embed_tokens.weight"]
    zeros = torch.zeros(pad_rows, embedding.shape[1], dtype=dtype)
    whole_tensors["model.embed_tokens.weight"] = torch.cat([embedding, zeros])
    return {
        name: hashlib.sha256(tensor.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
        for name, tensor in whole_tensors.items()
    }


def compare(folder: Path, found: dict[str, str], dtype: str, max_bytes: int = 2**30) -> int:
    layout = read_layout(folder)
    return compare_checksums(
        layout, found, dtype=dtype, on_gpu=False, seed="seed", max_bytes=max_bytes
    ).num_compared


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_that_landed_are_found_the_same(folder: Path, dtype: torch.dtype) -> None:
    found = held(folder, dtype) | {"model.rotary.cos_sin_cache": "0" * 16}
    assert compare(folder, found, str(dtype).removeprefix("torch.")) == len(read_layout(folder))


def test_an_embedding_may_be_filled_up(folder: Path) -> None:
    rows = read_layout(folder)["model.embed_tokens.weight"].shape[0]
    if rows % 64 == 0:
        pytest.skip("this vocabulary needs no rows more")
    found = held(folder, torch.float32, pad_rows=-rows % 64)
    assert compare(folder, found, "float32") == len(read_layout(folder))


@pytest.mark.parametrize("name", ["qkv_proj.weight", "gate_up_proj.weight", "embed_tokens.weight"])
def test_one_tensor_that_is_old_is_enough_to_refuse(folder: Path, name: str) -> None:
    found = held(folder, torch.float32)
    old = next(full for full in found if full.endswith(name))
    found[old] = "0" * 16
    with pytest.raises(WeightsRefused, match=f"{old} differs"):
        compare(folder, found, "float32")


def test_of_what_is_too_much_a_part_is_compared(folder: Path) -> None:
    found = held(folder, torch.float32)
    assert 0 < compare(folder, found, "float32", max_bytes=1) < len(read_layout(folder))


def test_an_engine_of_which_nothing_is_known_is_refused(folder: Path) -> None:
    with pytest.raises(WeightsRefused, match="none of the engine's weights"):
        compare(folder, {"encoder.layers": "0" * 16}, "float32")


def test_on_demand_all_is_compared_and_what_differs_is_named(folder: Path) -> None:
    found, layout = held(folder, torch.float32), read_layout(folder)
    old = next(name for name in found if name.endswith("qkv_proj.weight"))
    found[old] = "0" * 16
    same, differing = compare_all_checksums(layout, found, dtype="float32", on_gpu=False)
    assert differing == {old.replace("qkv", part) for part in "qkv"}
    assert same | differing == set(layout)
