"""Adapters of architectures whose layers are not all of one kind, merged as peft merges them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    DeepseekV3Config,
    GPT2Config,
    MixtralConfig,
    PretrainedConfig,
    Qwen3MoeConfig,
)

from assay_shared.errors import ConfigError
from assay_shared.weights.adapter import merge
from assay_trainer.config import LoRAConfig
from assay_trainer.learner.network.adapters import add_adapter, check_targets
from assay_trainer.learner.network.model import load_policy
from assay_trainer.weights.adapter import adapted_layers, bare, merged_layers, publish_adapter
from assay_trainer.weights.folder import publish_policy
from tests.support.architectures import SIZES, publish_random, random_model
from tests.unit.trainer.learner.network.test_adapters import CPU, logprobs

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
QWEN = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
DEEPSEEK = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}
DEEPSEEK_ATTENTION = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")


@pytest.mark.parametrize(
    ("kind", "values", "names"),
    [
        (GPT2Config, {}, ("c_attn", "c_fc", "c_proj")),
        (MixtralConfig, {"num_local_experts": 2}, ATTENTION),
        (Qwen3MoeConfig, QWEN, ATTENTION),
        (DeepseekV3Config, DEEPSEEK, DEEPSEEK_ATTENTION),
    ],
)
def test_the_published_network_is_the_one_that_peft_merges(
    tmp_path: Path, kind: type[PretrainedConfig], values: dict[str, Any], names: tuple[str, ...]
) -> None:
    base, tokenizer = load_policy(publish_random(tmp_path / "base", kind, **values))
    wrapped = add_adapter(base, LoRAConfig(rank=4), 0, CPU)
    model = bare(wrapped)
    layers = adapted_layers(model)
    assert {name.rpartition(".")[2] for name in layers} == set(names)
    for layer in layers.values():
        layer.lora_B["default"].weight.data.normal_(0.0, 0.1)
    found = logprobs(model)
    assert float((found - logprobs(load_policy(tmp_path / "base")[0])).abs().max()) > 1e-3
    with merged_layers(model):
        assert torch.allclose(logprobs(model), found, atol=1e-5)
    publish_policy(model, tokenizer, tmp_path / "merged")
    assert torch.allclose(logprobs(load_policy(tmp_path / "merged")[0]), found, atol=1e-5)
    publish_adapter(model, tmp_path / "adapter", "digest")
    merge(tmp_path / "base", tmp_path / "adapter", tmp_path / "served")
    assert torch.allclose(logprobs(load_policy(tmp_path / "served")[0]), found, atol=1e-5)
    assert torch.allclose(logprobs(wrapped.merge_and_unload()), found, atol=1e-5)


def test_layers_of_experts_are_refused_by_name() -> None:
    model = random_model(DeepseekV3Config(**(SIZES | DEEPSEEK)))
    with pytest.raises(ConfigError, match="no linear layer up_proj: it has kv_a_proj_with_mqa"):
        check_targets(model, LoRAConfig(rank=4, targets=("up_proj",)))
