"""MFU: which weights count, and the peak of each GPU."""

from types import SimpleNamespace

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from assay_trainer.learner import throughput
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.throughput import mfu, num_multiplied, peak_flops


def make_model(*, is_tied: bool) -> Qwen2ForCausalLM:
    config = Qwen2Config(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=is_tied,
    )
    return Qwen2ForCausalLM(config)


@pytest.mark.parametrize("is_tied", [True, False])
def test_the_input_embedding_counts_only_as_a_head(is_tied: bool) -> None:
    model = make_model(is_tied=is_tied)
    layers = sum(p.numel() for p in model.model.layers.parameters()) + 16  # and the last norm
    assert num_multiplied(model) == layers + 50 * 16


def test_a_tensor_in_4_bits_counts_as_the_weights_it_holds() -> None:
    model = make_model(is_tied=True)
    before, layer = num_multiplied(model), model.model.layers[0].mlp.up_proj
    packed = torch.nn.Parameter(torch.zeros(16 * 32 // 2, 1, dtype=torch.uint8), False)
    packed.quant_state = SimpleNamespace(shape=layer.weight.shape)  # type: ignore[attr-defined]
    layer.weight = packed
    assert num_multiplied(model) == before


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H200", 989e12),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA GB200", None),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_only_known_gpus_have_a_peak(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


class FourRanks(Ranks):
    """Four processes, of which only the number is asked."""

    def __init__(self) -> None:
        self.size, self.device = 4, torch.device("cpu")


def test_mfu_is_six_operations_a_weight_and_token_over_all_peaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make_model(is_tied=True)
    assert mfu(model, 1000.0, FourRanks()) is None, "a CPU has no known peak"
    monkeypatch.setattr(throughput, "device_peak_flops", lambda device: 1e9)
    assert mfu(model, 1000.0, FourRanks()) == 6 * num_multiplied(model) * 1000.0 / 4e9
