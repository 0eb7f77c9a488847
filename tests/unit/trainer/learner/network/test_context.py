"""The context of a policy is that of its text model."""

import pytest
from transformers import Gemma3Config, GPT2Config, LlamaConfig, PretrainedConfig

from assay_trainer.learner.network.context import context_of


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LlamaConfig(max_position_embeddings=96), 96),
        (GPT2Config(n_positions=48), 48),
        (Gemma3Config(text_config={"max_position_embeddings": 192}), 192),
        (PretrainedConfig(), None),
    ],
)
def test_the_context_is_that_of_the_text_model(
    config: PretrainedConfig, expected: int | None
) -> None:
    assert context_of(config) == expected
