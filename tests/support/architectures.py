"""Tiny checkpoints of other architectures, with random weights and the tests' tokenizer."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from assay_trainer.learner.network.model import train_tokenizer
from assay_trainer.weights.folder import publish_policy
from tests.support.policies import TEXTS

#: Of most architectures; their configurations give each size another name here and there.
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def random_model(config: PretrainedConfig) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def publish_random(folder: Path, kind: type[PretrainedConfig], **values: Any) -> Path:
    """Publish a random model of a configuration as `folder`, and return the folder."""
    tokenizer = train_tokenizer(TEXTS, 320)
    ids = {
        "vocab_size": len(tokenizer),
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    publish_policy(random_model(kind(**(SIZES | ids | values))), tokenizer, folder)
    return folder
