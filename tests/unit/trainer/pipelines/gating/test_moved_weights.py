"""The share of weights that moved, in files of safetensors."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from assay_trainer.pipelines.gating.moved_weights import moved_share, moved_shares


def write(folder: Path, **tensors: torch.Tensor) -> Path:
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_the_share_counts_weights_that_differ(tmp_path: Path, kind: torch.dtype) -> None:
    before = torch.zeros(10, 10, dtype=kind)
    after = before.clone()
    after[0, :5] = 1.0
    kept = torch.ones(100, dtype=kind)
    ours = write(tmp_path / "after", a=after, b=kept)
    theirs = write(tmp_path / "before", a=before, b=kept)
    assert moved_share(theirs, ours) == 5 / 200
    assert moved_share(ours, ours) == 0.0


def test_an_update_below_the_precision_of_16_bits_moves_nothing(tmp_path: Path) -> None:
    weights = torch.ones(64, dtype=torch.bfloat16)
    after = write(tmp_path / "after", a=weights + torch.tensor(1e-4, dtype=torch.bfloat16))
    assert moved_share(write(tmp_path / "before", a=weights), after) == 0.0


def test_a_run_has_a_share_for_each_stage_and_keeps_it(tmp_path: Path) -> None:
    weights = torch.zeros(4)
    for name, values in (("initial", weights), ("sft", weights + 1), ("dpo", weights + 1)):
        write(tmp_path / "run" / "models" / name, a=values)
    expected = {"sft": 1.0, "dpo": 0.0, "all": 1.0}
    stored = tmp_path / "weights.json"
    assert moved_shares(tmp_path / "run", stored) == expected
    assert json.loads(stored.read_text()) == expected
    write(tmp_path / "run" / "models" / "grpo", a=weights)
    assert moved_shares(tmp_path / "run", stored) == expected
    assert moved_shares(tmp_path / "none", tmp_path / "other.json") == {}
