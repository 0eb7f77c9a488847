"""A digest of all weights of a network in this process, against its folder's files."""

import time

from assay_inference.engines.transformers.model import LoadedModel
from assay_inference.weights.full_digest import file_fingerprint
from assay_inference.weights.safetensors import read_layout
from assay_shared.standalone.weight_transfer.fingerprint import as_text, fingerprints
from assay_shared.types import WeightDigest


def digest_of_model(model: LoadedModel) -> WeightDigest:
    """Compare a network in this process with its folder's files."""
    started = time.perf_counter()
    layout = read_layout(model.folder)
    held = model.network.state_dict()
    found = {name: held[name] for name in layout if name in held}
    sums = fingerprints((tensor, 0, 0) for tensor in found.values())
    values = {name: as_text(value) for name, value in zip(found, sums, strict=True)}
    engine_s = time.perf_counter() - started
    expected = {
        name: file_fingerprint(layout[name], str(tensor.dtype).removeprefix("torch."))
        for name, tensor in found.items()
    }
    return WeightDigest(
        policy=model.policy,
        num_tensors=len(layout),
        num_whole=len(found),
        num_sampled=0,
        differing=tuple(name for name in sorted(found) if values[name] != expected[name]),
        engine_s=engine_s,
        reference_s=time.perf_counter() - started - engine_s,
    )
