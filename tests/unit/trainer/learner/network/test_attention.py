"""Attention within packs is attention over each sequence alone."""

from typing import Any

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from assay_trainer.learner.network.attention import arguments, use_packed_attention

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
LENGTHS = (5, 1, 17, 2)


def make_model(kind: str) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = LlamaForCausalLM(LlamaConfig(**SIZES))
    if kind == "sliding":
        model = MistralForCausalLM(MistralConfig(**SIZES, sliding_window=3))
    model.eval()
    return model


@pytest.mark.parametrize("kind", ["full", "sliding"])
def test_a_pack_reads_as_its_sequences_one_by_one(kind: str) -> None:
    """A model with sliding windows keeps its own attention, with a mask for the pack."""
    alone, packed = make_model(kind), make_model(kind)
    use_packed_attention(packed)
    assert (packed.config._attn_implementation == "assay_packed") == (kind == "full")
    sequences = [torch.randint(0, 64, (length,)) for length in LENGTHS]
    bounds = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    places = torch.cat([torch.arange(length) for length in LENGTHS])
    with torch.no_grad():
        expected = [alone(input_ids=ids[None]).logits[0] for ids in sequences]
        found = packed(
            input_ids=torch.cat(sequences)[None],
            position_ids=places[None],
            use_cache=False,
            **arguments(bounds, max(LENGTHS)),
        ).logits[0]
        whole = packed(input_ids=torch.stack([sequences[2]] * 2), use_cache=False).logits
    torch.testing.assert_close(found, torch.cat(expected), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole[1], expected[2], rtol=1e-4, atol=1e-5)


def test_a_padded_batch_is_refused() -> None:
    model = make_model("full")
    use_packed_attention(model)
    ids = torch.tensor([[0, 0, 5], [6, 7, 8]])
    with pytest.raises(ValueError, match="a padded batch has no packs"):
        model(input_ids=ids, attention_mask=torch.tensor([[0, 0, 1], [1, 1, 1]]))
