"""A network that is trained without noise, whatever its configuration says."""

from typing import Any

import pytest
import torch
from transformers import FalconConfig, GPT2Config, LlamaConfig, MixtralConfig, PretrainedConfig

from assay_trainer.learner.network.dropout import remove_dropout
from assay_trainer.learner.packs import rows
from tests.support.architectures import SIZES, random_model
from tests.unit.trainer.learner.test_updater import gradient, make_config, make_groups

SHARED = {**SIZES, "vocab_size": 320, "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
NOISY: dict[str, PretrainedConfig] = {
    "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=128, vocab_size=320),
    "llama": LlamaConfig(**SHARED, attention_dropout=0.3),
    "falcon": FalconConfig(**SHARED, hidden_dropout=0.3, attention_dropout=0.3),
    "mixtral": MixtralConfig(**SHARED, num_local_experts=4, router_jitter_noise=0.3),
}


@pytest.mark.parametrize("config", NOISY.values(), ids=NOISY)
def test_a_trained_network_computes_as_one_that_is_measured(config: PretrainedConfig) -> None:
    model, ids_1T = random_model(config), torch.arange(10, 60)[None]
    written = model.config.to_json_string()

    def logits(**options: Any) -> torch.Tensor:
        found: torch.Tensor = model(input_ids=ids_1T, **options).logits
        return found

    model.train()
    assert not torch.equal(logits(), logits()), "the configuration has noise"
    remove_dropout(model)
    assert torch.equal(logits(), logits())
    trained = logits()
    model.eval()
    assert torch.equal(trained, logits())
    assert model.config.to_json_string() == written, "it is published"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_an_update_has_no_noise(name: str) -> None:
    found = []
    for _ in range(2):
        model = random_model(NOISY[name])
        found.append(gradient(model, rows(make_groups()), make_config(), 40)[1])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])
