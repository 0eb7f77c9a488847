"""Directly sent weights: each weight once, in the engine's type."""

from types import SimpleNamespace

import pytest
import torch

from assay_shared.standalone.weight_transfer.fingerprint import as_text, fingerprint
from assay_shared.types import WeightReceiver
from assay_trainer.learner.network.model import create_policy
from assay_trainer.weights.direct import manifest_of, transport_to
from assay_trainer.weights.publisher import probe
from assay_trainer.weights.safetensors_writer import named_weights
from tests.support.policies import TEXTS, TINY


def test_a_tied_head_is_sent_once_and_under_the_name_that_a_checkpoint_has() -> None:
    model, _ = create_policy(TINY, TEXTS, seed=0)
    names = named_weights(model).keys()
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names
    assert len(names) == len(list(model.parameters()))


def test_the_manifest_is_of_what_the_engine_will_hold() -> None:
    weights = {"w": torch.randn(5, 3)}
    (entry,) = manifest_of(weights, "bfloat16")
    assert entry.dtype == "bfloat16"
    assert entry.fingerprint == as_text(fingerprint(weights["w"].to(torch.bfloat16)))
    assert entry.fingerprint != as_text(fingerprint(weights["w"]))


@pytest.mark.parametrize("devices", [("cpu",), ("GPU-1", "cpu"), ("GPU-1",)])
def test_from_a_cpu_weights_go_over_gloo(devices: tuple[str, ...]) -> None:
    receiver = WeightReceiver(devices=devices, dtype="float32")
    assert transport_to(receiver, torch.device("cpu")) == ("gloo", torch.device("cpu"))


@pytest.mark.parametrize(
    ("devices", "transport", "lent"),
    [
        (("GPU-0",), "ipc", 0),
        (("GPU-0", "GPU-0", "GPU-0"), "ipc", 0),
        (("GPU-1",), "nccl", 0),
        (("GPU-1", "GPU-9"), "nccl", 0),
        (("GPU-1", "GPU-1"), "ipc", 1),
        (("GPU-9", "GPU-9"), "gloo", 0),
        (("GPU-0", "GPU-1"), "gloo", 0),
        (("GPU-0", "cpu"), "gloo", 0),
        (("GPU-1", "GPU-1", "GPU-9"), "gloo", 0),
    ],
)
def test_processes_on_one_visible_gpu_borrow_buffers_there(
    monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...], transport: str, lent: int
) -> None:
    def properties(gpu: torch.device) -> SimpleNamespace:
        return SimpleNamespace(uuid=f"GPU-{gpu.index}")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    receiver = WeightReceiver(devices=devices, dtype="bfloat16")
    found = transport_to(receiver, torch.device("cuda", 0))
    assert found == (transport, torch.device("cuda", lent))


def test_a_probe_says_in_which_type_it_was_computed() -> None:
    model, _ = create_policy(TINY, TEXTS, seed=0)
    assert probe(model, [1, 2, 3]).dtype == "float32"
    assert probe(model.bfloat16(), [1, 2, 3]).dtype == "bfloat16"
