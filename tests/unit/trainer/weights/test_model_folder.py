"""The folder of a model that a user names, checked before anything is loaded."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from assay_shared.errors import CallerError, InvalidInput
from assay_trainer.weights.model_folder import check_folder

NAME = "model.norm.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    save_file({NAME: torch.ones(4)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"base_model_name_or_path": "org/model"}, "is a LoRA adapter of org/model"),
        ({}, "is a LoRA adapter whose base adapter_config.json does not name"),
    ],
)
def test_an_adapter_alone_is_told_with_its_base(
    tmp_path: Path, config: dict[str, str], told: str
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidInput, match=f"{told} .*assay handoff {tmp_path} --base"):
        check_folder(tmp_path)


def test_an_adapter_in_the_folder_of_a_model_is_refused(folder: Path) -> None:
    check_folder(folder)
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(InvalidInput, match="has a model and a LoRA adapter"):
        check_folder(folder)


def test_integers_are_weights_only_if_the_configuration_says_so(folder: Path) -> None:
    masks = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    save_file(
        {NAME: torch.ones(4, dtype=torch.int8), "h.0.attn.bias": masks},
        folder / "model.safetensors",
    )
    with pytest.raises(InvalidInput, match=f"{NAME} has the type I8, .* no quantization_config"):
        check_folder(folder)
    config = {"quantization_config": {"quant_method": "gptq"}}
    (folder / "config.json").write_text(json.dumps(config))
    check_folder(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: (one / "config.json").unlink(), "has no config.json"),
        (lambda one: (one / "config.json").write_text("{"), r"config\.json is not JSON"),
        (lambda one: (one / "config.json").write_text("[]"), r"config\.json is not a JSON object"),
        (lambda one: (one / "model.safetensors").unlink(), r"has no model\.safetensors"),
        (lambda one: (one / "model.safetensors").write_bytes(b"abc"), "is cut off"),
        (lambda one: (one / "more.safetensors").touch(), r"more\.safetensors is not in an index"),
    ],
)
def test_a_folder_that_is_not_a_whole_model_is_bad_input(
    folder: Path, change: Callable[[Path], object], told: str
) -> None:
    change(folder)
    with pytest.raises(CallerError, match=told):
        check_folder(folder)
