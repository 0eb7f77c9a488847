"""Weights on two ranks are published as those of one, part by part."""

import hashlib
import sys
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from assay_shared.standalone.weight_transfer.fingerprint import fingerprint
from assay_shared.standalone.weight_transfer.manifest import ManifestEntry, plan_buckets
from assay_shared.standalone.weight_transfer.packing import pack
from assay_shared.weights import checkpoint
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.packs import pack_rows, rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.updater import make_updater
from assay_trainer.weights.direct import manifest_of
from assay_trainer.weights.folder import publish_policy
from assay_trainer.weights.publisher import probe
from assay_trainer.weights.safetensors_writer import named_weights
from assay_trainer.weights.sharded import Tensors, bucket_reader, make_hollow, shards_of
from tests.support.policies import TEXTS, TINY
from tests.support.ranks import FOLLOW, processes
from tests.unit.trainer.learner.test_updater import make_config, make_groups, make_model

LEAD = (sys.executable, "-m", __name__)
#: 29 million weights: 58 MB in bfloat16. Two ranks cannot divide 1,001 rows evenly.
SIZES = {"hidden_size": 512, "intermediate_size": 1001, "num_layers": 11}
CONFIG = make_config(learning_rate=0.01)
BUCKET_BYTES = 8 * 2**20
IDS = [1, 20, 31, 4, 55]
DTYPES = ("float32", "bfloat16")


def manifest(model: PreTrainedModel, dtype: str) -> list[ManifestEntry]:
    return manifest_of(named_weights(model), dtype, shards_of(model))


def transfer(model: PreTrainedModel, entries: list[ManifestEntry]) -> list[str]:
    """Pack every bucket in a thread, as a sender does; return the buckets' digests."""
    buckets = plan_buckets(entries, BUCKET_BYTES)
    read = bucket_reader(model, named_weights(model), buckets)

    def send() -> list[str]:
        digests = []
        for bucket in buckets:
            buffer = torch.zeros(bucket.num_bytes, dtype=torch.uint8)
            pack(bucket, read, buffer)
            digests.append(hashlib.sha256(buffer.numpy().data).hexdigest())
        return digests

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(send).result()


def peak_bytes(action: Callable[[], Any]) -> tuple[Any, int]:
    """Return the result of `action`, and the most memory that this process needed for it."""
    action()  # libraries load their parts
    Path("/proc/self/clear_refs").write_text("5")  # from here on, VmHWM starts again
    before = memory("VmRSS")
    return action(), memory("VmHWM") - before


def memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def lead(policy: Path, output: Path) -> None:
    """Be rank 0: publish in each way, before and after an update."""
    ranks = Ranks()
    model, tokenizer = load_policy(policy)
    found: dict[str, Any] = {"probe alone": probe(model, IDS)}
    updater = make_updater(model, CONFIG, ranks)
    found["probe"] = probe(model, IDS)
    found |= {dtype: manifest(model, dtype) for dtype in DTYPES}
    found["transfer"], found["transfer bytes"] = peak_bytes(
        lambda: transfer(model, found["bfloat16"])
    )
    _, found["manifest bytes"] = peak_bytes(lambda: manifest(model, "bfloat16"))
    _, found["probe bytes"] = peak_bytes(lambda: probe(model, IDS))
    publish_policy(model, tokenizer, output / "first")
    packs = pack_rows(rows(make_groups()), updater.objective, 64)
    updater.apply(1, updater.backward(packs))
    found["updated"] = manifest(model, "bfloat16")
    publish_policy(model, tokenizer, output / "updated")
    ranks.end()
    torch.save(found, output / "found.pt")


@pytest.mark.nightly
@pytest.mark.slow
def test_two_ranks_publish_what_one_does_and_gather_a_bucket_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The C library gives memory back at once: otherwise, the second call of an action shows none.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    policy = tmp_path / "policy"
    made, tokenizer = create_policy(TINY.model_copy(update=SIZES), TEXTS, seed=0)
    publish_policy(made.bfloat16(), tokenizer, policy)
    with processes([(*LEAD, str(policy), str(tmp_path)), FOLLOW]) as both:
        said = [one.communicate(timeout=400)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    found = torch.load(tmp_path / "found.pt", weights_only=False)
    alone, _ = load_policy(policy)
    for dtype in DTYPES:
        assert found[dtype] == manifest(alone, dtype)
    assert found["transfer"] == transfer(alone, found["bfloat16"])
    assert found["probe"].dtype == "bfloat16"
    assert found["probe"].logprobs == pytest.approx(found["probe alone"].logprobs, abs=1e-5)
    weights = [
        checkpoint.file_digest(folder / checkpoint.WEIGHTS)
        for folder in (policy, tmp_path / "first", tmp_path / "updated")
    ]
    assert weights[0] == weights[1] != weights[2]
    updated = load_policy(tmp_path / "updated")[0]
    assert found["updated"] == manifest(updated, "bfloat16") != found["bfloat16"]
    peaks = {name: value for name, value in found.items() if name.endswith("bytes")}
    # A gathered bucket and its buffer; a layer; the int64 products of a shard's entries. The model
    # has 58 MB as it is served, and 116 MB as it is trained.
    assert BUCKET_BYTES / 2 < peaks["transfer bytes"] < 3 * BUCKET_BYTES, peaks
    assert peaks["probe bytes"] < 2 * BUCKET_BYTES, peaks
    assert peaks["manifest bytes"] < 2 * BUCKET_BYTES, peaks


class Counted:
    """The shards of one process, which count what is asked."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._weights = {name: one.detach().clone() for name, one in model.named_parameters()}
        self.asked: list[list[str]] = []

    def fingerprints(self, dtype: torch.dtype) -> dict[str, int]:
        return {name: fingerprint(one.to(dtype)) for name, one in self._weights.items()}

    def gather(self, names: Collection[str], dtype: torch.dtype | None = None) -> Tensors:
        self.asked.append(list(names))
        return {name: self._weights[name].to(dtype or torch.float32) for name in names}


def test_a_hollow_model_computes_layer_by_layer_and_has_nothing_in_between() -> None:
    model = make_model()
    expected = probe(model, IDS).logprobs
    manifests = [manifest(model, dtype) for dtype in DTYPES]
    shards = Counted(model)
    make_hollow(model, shards, torch.device("cpu"))
    assert [manifest(model, dtype) for dtype in DTYPES] == manifests
    assert shards.asked == [], "a manifest gathers nothing"
    assert probe(model, IDS).logprobs == expected
    assert max(map(len, shards.asked)) < len(list(model.parameters())) / 2
    assert all(one.isnan().all() for one in model.parameters())
    assert sum(one.untyped_storage().nbytes() for one in model.parameters()) < 1000
    shards.asked.clear()
    buckets = plan_buckets(manifests[1], 8192)
    read = bucket_reader(model, named_weights(model), buckets)
    for bucket in buckets:
        for slot in bucket.slots:
            assert read(slot.entry.name).dtype == torch.bfloat16
    assert shards.asked == [[slot.entry.name for slot in one.slots] for one in buckets]


if __name__ == "__main__":
    lead(*map(Path, sys.argv[1:]))
