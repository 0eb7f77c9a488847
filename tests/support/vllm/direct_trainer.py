"""A trainer with a failure in mid-transfer: `python -m tests.support.vllm.direct_trainer` and

    FOLDER VERSION WHAT

Prints its announcement as a line of JSON, then serves the weights: `all` of them, or until
the last tensor; there it changes a bit (`corrupt`), or sends itself SIGKILL or SIGSTOP.
"""

import os
import signal
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from assay_shared.standalone.weight_transfer.fingerprint import as_text, fingerprint
from assay_shared.standalone.weight_transfer.limit import Limit, TransferFailed
from assay_shared.standalone.weight_transfer.manifest import ManifestEntry, digest_of, plan_buckets
from assay_shared.standalone.weight_transfer.sending import Sender
from assay_shared.types import DirectWeights, PolicyVersion, TensorSpec, WeightUpdate

BUCKET_BYTES = 100_000


def main(folder: Path, version: int, what: str) -> None:
    weights = load_file(folder / "model.safetensors")
    entries = [
        ManifestEntry(name, tuple(tensor.shape), "float32", as_text(fingerprint(tensor)))
        for name, tensor in weights.items()
    ]
    sender = Sender("gloo", "127.0.0.1", 1, torch.device("cpu"))
    update = WeightUpdate(
        source=DirectWeights(
            transport="gloo",
            **sender.meeting._asdict(),
            announcement=version,
            bucket_bytes=BUCKET_BYTES,
            tensors=tuple(TensorSpec.model_validate(entry._asdict()) for entry in entries),
        ),
        policy=PolicyVersion(version=version, digest=digest_of(entries)),
    )
    sys.stdout.write(update.model_dump_json() + "\n")
    sys.stdout.flush()

    def tensor_of(name: str) -> torch.Tensor:
        if name == entries[-1].name:
            if what.startswith("SIG"):
                os.kill(os.getpid(), signal.Signals[what])
            if what == "corrupt":
                bits = weights[name].view(torch.int32)
                bits.view(-1)[5] ^= 1
        return weights[name]

    try:
        sender.send(version, plan_buckets(entries, BUCKET_BYTES), tensor_of, Limit(1800), 30)
    except TransferFailed as error:
        sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
