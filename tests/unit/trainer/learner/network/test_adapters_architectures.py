"""Adapters of architectures whose layers are not all of one kind, merged as peft merges them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    GPT2Config,
    MixtralConfig,
    PretrainedConfig,
    Qwen3MoeConfig,
)

from assay_shared.errors import ConfigError
from assay_trainer.config import LoRAConfig
from assay_trainer.learner.network.adapters import add_adapter, check_targets
from assay_trainer.learner.network.model import load_policy, train_tokenizer
from assay_trainer.weights.adapter import adapted_layers, bare, merged_layers
from assay_trainer.weights.folder import publish_policy
from tests.support.policies import TEXTS
from tests.unit.trainer.learner.network.test_adapters import CPU, logprobs

SIZES: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
GPT2 = GPT2Config(vocab_size=320, n_embd=32, n_layer=2, n_head=2, n_positions=64)
MIXTRAL = MixtralConfig(**SIZES, num_local_experts=2, max_position_embeddings=64)
QWEN = Qwen3MoeConfig(**SIZES, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16)
DEEPSEEK = DeepseekV3Config(
    **{name: value for name, value in SIZES.items() if name != "head_dim"},
    n_routed_experts=4,
    num_experts_per_tok=2,
    n_group=1,
    topk_group=1,
    moe_intermediate_size=16,
    first_k_dense_replace=1,
    q_lora_rank=8,
    kv_lora_rank=8,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=8,
)
DEEPSEEK_ATTENTION = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (GPT2, ("c_attn", "c_fc", "c_proj")),
        (MIXTRAL, ATTENTION),
        (QWEN, ATTENTION),
        (DEEPSEEK, DEEPSEEK_ATTENTION),
    ],
)
def test_the_published_network_is_the_one_that_peft_merges(
    tmp_path: Path, config: PretrainedConfig, names: tuple[str, ...]
) -> None:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(TEXTS, 320)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    wrapped = add_adapter(load_policy(tmp_path / "base")[0], LoRAConfig(rank=4), 0, CPU)
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
    assert torch.allclose(logprobs(wrapped.merge_and_unload()), found, atol=1e-5)


def test_layers_of_experts_are_refused_by_name(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_config(DEEPSEEK)
    with pytest.raises(ConfigError, match="no linear layer up_proj: it has kv_a_proj_with_mqa"):
        check_targets(model, LoRAConfig(rank=4, targets=("up_proj",)))
