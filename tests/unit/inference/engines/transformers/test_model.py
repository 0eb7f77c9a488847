"""Models of other architectures: what they sample, and which of them are refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Cohere2Config,
    Gemma2Config,
    Gemma3TextConfig,
    MistralConfig,
    MixtralConfig,
    PretrainedConfig,
    Qwen2Config,
)

from assay_shared.errors import WeightsRefused
from assay_shared.types import SamplingParams
from tests.support.architectures import publish_random
from tests.support.policies import update_of
from tests.unit.inference.engines.transformers.test_engine import make_engine, version

#: Longer than the windows below.
PROMPT = list(range(10, 70))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (MistralConfig, {"sliding_window": 128}),
        (MistralConfig, {"sliding_window": None}),
        (Gemma2Config, {"sliding_window": 128, "head_dim": 8}),
        (Gemma3TextConfig, {"sliding_window": 128, "head_dim": 8}),
        (Cohere2Config, {"sliding_window": 256}),
        (MixtralConfig, {"num_local_experts": 4, "output_router_logits": True}),
    ],
)
async def test_samples_are_those_of_the_library(
    tmp_path: Path, kind: type[PretrainedConfig], values: dict[str, object]
) -> None:
    folder = publish_random(tmp_path / "model", kind, **values)
    engine = make_engine()
    try:
        await engine.load(update_of(folder, version(folder)))
        sampling = SamplingParams(n=2, max_tokens=24, temperature=0.0)
        first, second = await engine.generate(PROMPT, sampling)
    finally:
        await engine.close()
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.config.output_router_logits = False
    expected = model.generate(  # type: ignore[misc]  # its mixin hides the signature
        torch.tensor([PROMPT]), max_new_tokens=24, do_sample=False
    )[0, len(PROMPT) :]
    assert list(first.token_ids) == list(second.token_ids) == expected.tolist()


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (MistralConfig, {"sliding_window": 32}, "attention within a window of 32 tokens"),
        (
            Qwen2Config,
            {"sliding_window": 32, "use_sliding_window": True, "max_window_layers": 1},
            "sliding_attention",
        ),
        (Gemma2Config, {"sliding_window": 32, "head_dim": 8}, "sliding_attention"),
        (BloomConfig, {"n_head": 2}, "linear biases"),
    ],
)
async def test_layers_that_read_a_part_of_the_context_are_refused(
    tmp_path: Path, kind: type[PretrainedConfig], values: dict[str, object], message: str
) -> None:
    folder = publish_random(tmp_path / "model", kind, **values)
    engine = make_engine()
    try:
        with pytest.raises(WeightsRefused, match=message):
            await engine.load(update_of(folder, version(folder)))
    finally:
        await engine.close()


async def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    folder = publish_random(tmp_path / "model", Qwen2Config)
    file, name = folder / "model.safetensors", "model.layers.0.mlp.gate_proj.weight"
    tensors = load_file(file)
    expected = [*tensors[name].shape]
    save_file(tensors | {name: torch.ones(3, 5)}, file, metadata={"format": "pt"})
    engine = make_engine()
    try:
        with pytest.raises(WeightsRefused) as refused:
            await engine.load(update_of(folder, version(folder)))
    finally:
        await engine.close()
    told = f"{name} has the shape [3, 5], and config.json expects {expected}"
    assert told in refused.value.message
    assert "ignore_mismatched_sizes" not in refused.value.message
