"""Code inside vLLM's workers, around a network with vLLM's layout."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from assay_inference.engines.vllm.worker.vllm_worker import WorkerExtension
from assay_shared import standalone
from assay_shared.standalone.weight_transfer.fingerprint import as_text, fingerprint
from assay_shared.standalone.weight_transfer.limit import Limit, TransferFailed
from assay_shared.standalone.weight_transfer.manifest import ManifestEntry, plan_buckets
from assay_shared.standalone.weight_transfer.sample import Piece, SamplePlan, digest_of
from assay_shared.standalone.weight_transfer.sending import Sender

BUCKET_BYTES = 3000
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def path_of_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(standalone.__path__[0])


class Fused(torch.nn.Module):
    """Two tensors of a checkpoint in a single tensor; a kernel has its own copy."""

    def __init__(self, sizes: list[int], width: int) -> None:
        super().__init__()
        self.output_partition_sizes = sizes
        self.input_size = self.input_size_per_partition = width
        self.weight = torch.nn.Parameter(torch.zeros(sum(sizes), width), requires_grad=False)
        self.quant_method = self
        self.process_weights_after_loading(self)

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        self.cpu_linear = self.weight.detach().T.contiguous()

    def apply(self, layer: Any, x: torch.Tensor, bias: None) -> torch.Tensor:  # type: ignore[override]
        return x @ self.cpu_linear


class Network(torch.nn.Module):
    packed_modules_mapping = {"fused": ["first", "second"]}  # noqa: RUF012  # as vLLM's are

    def __init__(self) -> None:
        super().__init__()
        self.fused = Fused([8, 4], 6)
        self.norm = torch.nn.LayerNorm(6, bias=False)


class Worker(WorkerExtension):
    """A model of vLLM's, as far as the extension sees it."""

    def __init__(self) -> None:
        self.network = Network()
        self.model_runner = SimpleNamespace(get_model=lambda: self.network)
        self.device, self.rank = CPU, 0
        self.num_ended = 0

    def reload_weights(self, weights_iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        fused = self.network.fused
        for name, tensor in list(weights_iterator):
            if name == "norm.weight":
                self.network.norm.weight.data.copy_(tensor)
            else:
                start = 0 if name == "first.weight" else 8
                fused.weight.data[start : start + len(tensor)] = tensor
        fused.process_weights_after_loading(fused)

    def assay_end_reload(self) -> dict[str, Any]:
        self.num_ended += 1
        return {}


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = {"first.weight": (8, 6), "second.weight": (4, 6), "norm.weight": (6,)}
    return {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}


def manifest(weights: dict[str, torch.Tensor]) -> list[ManifestEntry]:
    return [
        ManifestEntry(name, tuple(tensor.shape), "float32", as_text(fingerprint(tensor)))
        for name, tensor in weights.items()
    ]


def receive(worker: Worker, weights: dict[str, torch.Tensor], limit_s: float = 60) -> Any:
    """Return the worker's answers while a trainer sends `weights`, in the manifest's order."""
    entries = manifest(weights)
    sender = Sender("gloo", "127.0.0.1", 1, CPU)
    source = {
        "transport": "gloo",
        "meeting": list(sender.meeting),
        "announcement": 1,
        "first_worker": 0,
        "num_workers": 1,
        "bucket_bytes": BUCKET_BYTES,
        "entries": [list(entry) for entry in entries],
    }

    def send() -> None:
        try:
            sender.send(1, plan_buckets(entries, BUCKET_BYTES), weights.__getitem__, Limit(60), 60)
        except (TransferFailed, KeyError):
            sender.close()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    answer = worker.assay_receive(source, "seed", limit_s)
    thread.join(60)
    sender.close()
    return answer


def test_what_came_is_loaded_and_every_copy_of_it_can_be_proven(
    weights: dict[str, torch.Tensor],
) -> None:
    worker = Worker()
    answer = receive(worker, weights)
    assert "failure" not in answer
    assert not answer["in_place"], "a kernel has its own layout"
    assert torch.equal(worker.network.norm.weight, weights["norm.weight"])
    found = worker.assay_fingerprints(sorted(weights))
    assert sorted(found["sampled"]) == ["first.weight", "second.weight"]
    for name, (numbers, value) in found["fingerprints"].items():
        rows, columns = (*weights[name].shape, 1)[:2]
        assert tuple(numbers) == Piece(0, rows, 0, columns)
        assert value == as_text(fingerprint(weights[name]))
    assert found["fingerprints"].keys() == weights.keys()
    kept = worker.assay_digests(sorted(answer["samples"]), "seed")["digests"]
    for name, (_, sample) in answer["samples"].items():
        assert set(kept[name][1]) == {sample}
        plan = SamplePlan.of(name, Piece(0, len(weights[name]), 0, 6), "seed")
        values = weights[name][plan.rows][:, plan.columns].flatten().tolist()
        assert sample == digest_of(values)


def test_a_kernels_copy_that_stayed_old_is_seen(weights: dict[str, torch.Tensor]) -> None:
    worker = Worker()
    answer = receive(worker, weights)
    worker.network.fused.cpu_linear[2, 9] += 1
    kept = worker.assay_digests(["first.weight", "second.weight"], "seed")["digests"]
    assert set(kept["first.weight"][1]) == {answer["samples"]["first.weight"][1]}
    assert set(kept["second.weight"][1]) != {answer["samples"]["second.weight"][1]}


class Missing(dict[str, torch.Tensor]):
    """A trainer with a failure at its last tensor."""

    def __getitem__(self, name: str) -> torch.Tensor:
        if name == "norm.weight":
            raise KeyError(name)
        return super().__getitem__(name)


def test_what_breaks_off_is_said_and_the_reload_is_ended(weights: dict[str, torch.Tensor]) -> None:
    worker = Worker()
    answer = receive(worker, Missing(weights), limit_s=20)
    assert "the " in answer["failure"]
    assert worker.num_ended == 1
    assert "failure" not in receive(worker, weights), "the next trainer is received"
