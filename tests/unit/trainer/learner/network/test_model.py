"""A checkpoint whose tensors are not those of its configuration is not trained."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig

from assay_shared.errors import InvalidInput
from assay_trainer.learner.network.model import load_policy
from assay_trainer.weights.folder import publish_policy
from tests.support.architectures import publish_random

Tensors = dict[str, torch.Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return publish_random(tmp_path / "model", LlamaConfig, hidden_size=16)


def rewrite(folder: Path, change: Callable[[Tensors], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: one.pop("lm_head.weight"), "missing: lm_head.weight"),
        (lambda one: one.pop("model.layers.1.mlp.up_proj.weight"), r"missing: model.layers.1.mlp"),
        (
            lambda one: one.update({"model.norm.weight": torch.ones(8)}),
            r"mismatched: .*model.norm.weight",
        ),
    ],
)
def test_a_tensor_that_would_be_left_to_chance_is_named(
    folder: Path, change: Callable[[Tensors], object], reason: str
) -> None:
    rewrite(folder, change)
    with pytest.raises(InvalidInput, match=reason):
        load_policy(folder)


def test_a_layer_that_the_configuration_leaves_out_is_named(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 1}))
    with pytest.raises(InvalidInput, match=r"unexpected: model.layers.1.*and 4 more"):
        load_policy(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_named(folder: Path, value: float) -> None:
    rewrite(folder, lambda one: one["model.layers.1.mlp.up_proj.weight"][3].fill_(value))
    with pytest.raises(
        InvalidInput, match=r"infinite values: model.layers.1.mlp.up_proj.weight \("
    ):
        load_policy(folder)
    rewrite(folder, lambda one: [tensor.fill_(value) for tensor in one.values()])
    with pytest.raises(InvalidInput, match=r"infinite values: .*and \d+ more "):
        load_policy(folder)


def test_a_value_head_is_left_out(folder: Path) -> None:
    rewrite(folder, lambda one: one.update({"v_head.weight": torch.ones(1, 16)}))
    model, _ = load_policy(folder)
    assert "v_head.weight" not in model.state_dict()


def test_integers_in_place_of_weights_are_named(folder: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    rewrite(folder, lambda one: one.update({name: (100 * one[name]).to(torch.int8)}))
    with pytest.raises(InvalidInput, match=f"{name} has the type I8"):
        load_policy(folder)


def test_the_base_of_an_adapter_may_keep_its_types(folder: Path, tmp_path: Path) -> None:
    rewrite(folder, lambda one: one.update({name: value.bfloat16() for name, value in one.items()}))
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"dtype": "bfloat16"}))
    digests = set()
    for keep, dtype in ((False, torch.float32), (True, torch.bfloat16)):
        model, tokenizer = load_policy(folder, keep_types=keep)
        assert {one.dtype for one in model.parameters()} == {dtype}
        digests.add(publish_policy(model, tokenizer, tmp_path / str(dtype)))
    assert len(digests) == 1, "both are published in the types of the folder"
