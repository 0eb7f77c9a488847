import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from assay_inference.engines.vllm.worker import reading
from assay_inference.engines.vllm.worker.reading import StoredTensor, read
from assay_inference.weights.safetensors import read_layout

CPU = torch.device("cpu")


@pytest.fixture
def weights(tmp_path: Path) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    weights = {
        "a": torch.randn(300, 70, generator=random),
        "b": torch.randn(5, 4, 3, generator=random).bfloat16(),
        "c": torch.arange(7),
        "d": torch.tensor(2.5),
        "e": torch.randn(40_000, generator=random).half(),
    }
    files = {
        "model-00001-of-00002.safetensors": "ab",
        "model-00002-of-00002.safetensors": "cde",
    }
    for file, names in files.items():
        save_file({name: weights[name] for name in names}, tmp_path / file)
    index = {
        "metadata": {},
        "weight_map": {name: file for file, names in files.items() for name in names},
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text("{}")
    return weights


def stored(folder: Path) -> list[StoredTensor]:
    layout = read_layout(folder)
    return [StoredTensor(*layout[name].stored_as(name)) for name in sorted(layout)]


@pytest.mark.parametrize("ahead_bytes", [1, 30_000, 2**30])
def test_every_tensor_comes_as_it_was_saved_and_in_order(
    weights: dict[str, torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahead_bytes: int,
) -> None:
    monkeypatch.setattr(reading, "_MAX_AHEAD_BYTES", ahead_bytes)
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1000)
    came = list(read(stored(tmp_path), CPU))
    assert [name for name, _ in came] == sorted(weights)
    for name, tensor in came:
        assert tensor.dtype == weights[name].dtype
        assert torch.equal(tensor, weights[name])


def test_a_file_that_ends_too_early_is_an_error(
    weights: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    places = stored(tmp_path)
    file = tmp_path / "model-00002-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(OSError, match="the file ends at byte"):
        list(read(places, CPU))
