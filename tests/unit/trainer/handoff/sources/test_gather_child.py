"""Shards of other trainers gathered: every bit as before, and no pickle's program runs."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from assay_shared.errors import WeightsRefused
from assay_shared.runtime.confinement import run_confined
from assay_shared.weights.checkpoint import weight_files
from tests.support.policies import make_policy_folder
from tests.support.verl_shards import write_shards


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "policy"
    make_policy_folder(folder)
    return folder


@pytest.fixture(scope="module")
def shards(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(model, tmp_path_factory.mktemp("verl") / "global_step_3")


def gather(folder: Path, into: Path) -> dict[str, torch.Tensor]:
    """Gather in the confined process, as the command does."""
    into.mkdir()
    child = "assay_trainer.handoff.sources.gather_child"
    run_confined(child, (str(folder), str(into), "shards"), 60, refusal=f"{folder} cannot be read")
    (into / "config.json").write_text("{}")
    return {name: one for file in weight_files(into) for name, one in load_file(file).items()}


@pytest.mark.slow
def test_gathered_shards_equal_the_weights_bit_for_bit(
    model: Path, shards: Path, tmp_path: Path
) -> None:
    found = gather(shards, tmp_path / "into")
    expected = AutoModelForCausalLM.from_pretrained(model, dtype="auto").state_dict()
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        assert found[name].dtype == one.dtype
        assert found[name].contiguous().view(torch.uint8).equal(one.view(torch.uint8)), name


class Attack:
    """A pickle of it runs a program when it is read without care."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self._mark}",)


@pytest.mark.slow
def test_a_pickle_that_calls_a_program_is_refused_and_calls_nothing(tmp_path: Path) -> None:
    folder, mark = tmp_path / "evil", tmp_path / "mark"
    folder.mkdir()
    torch.save({"a": Attack(mark)}, folder / "model_world_size_1_rank_0.pt")
    with pytest.raises(WeightsRefused, match=r"rank_0\.pt: .*system"):
        gather(folder, tmp_path / "into")
    assert not mark.exists()


@pytest.mark.slow
def test_a_file_that_is_cut_off_is_refused_by_name(shards: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    for file in shards.glob("*.pt"):
        content = file.read_bytes()
        (folder / file.name).write_bytes(content[: len(content) // 2])
    with pytest.raises(WeightsRefused, match=r"model_world_size_2_rank_0\.pt is cut off"):
        gather(folder, tmp_path / "into")
