"""Measures the upload of new weights, whole and as differences, after a step of AdamW.

    python bench/weight_upload.py --dtype bfloat16 --learning-rate 1e-6

Client and service share a process. `cpu_seconds` is its processor time; other work on the machine
only changes `seconds`. The policy has some 100 MB of random weights. Float32 master weights are
stepped with random gradients. Their values in `--dtype` before and after the last step are
uploaded.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path

import torch
import uvicorn
from transformers import PreTrainedModel

from assay_inference.api.app import create_app
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.clients.weight_upload import upload_weights
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import PolicyVersion, UploadedWeights, WeightUpdate
from assay_shared.weights import checkpoint
from assay_trainer.config import NewPolicyConfig
from assay_trainer.learner.network.model import create_policy

_STEPS = 8
_TEXTS = [f"Return {n} plus {n}." for n in range(100)]
#: By dtype: the number of layers for some 100 MB.
_LAYERS = {"bfloat16": 16, "float32": 8}


def stepped(model: PreTrainedModel, dtype: torch.dtype, learning_rate: float, to: Path) -> float:
    """Save the weights before and after the last step; return the share of changed entries."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    before: dict[str, torch.Tensor] = {}
    for step in range(_STEPS):
        for weight in model.parameters():
            weight.grad = torch.randn_like(weight)
        if step == _STEPS - 1:
            before = {name: w.detach().to(dtype).clone() for name, w in model.named_parameters()}
            save(model, dtype, to / "v0")
        optimiser.step()
    save(model, dtype, to / "v1")
    pairs = [(before[name], weight.to(dtype)) for name, weight in model.named_parameters()]
    changed = sum(int((old != new).sum()) for old, new in pairs)
    return changed / sum(old.numel() for old, _ in pairs)


def save(model: PreTrainedModel, dtype: torch.dtype, folder: Path) -> None:
    state = {name: value.to(dtype) for name, value in model.state_dict().items()}
    model.config.dtype = dtype
    model.save_pretrained(folder, state_dict=state)


async def measure(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    settings = InferenceSettings(inference_model=folder / "v0", inference_device="cpu")
    config = uvicorn.Config(create_app(settings), port=options.port, log_level="error")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
        await asyncio.sleep(0.05)
    found: dict[str, object] = {}
    base = (checkpoint.digest(folder / "v0"), folder / "v0")
    async with InferenceClient(f"http://127.0.0.1:{options.port}") as client:
        await upload_weights(client, folder / "v1", num_parallel=options.parallel)
        for name, given in (("whole", None), ("delta", base)):
            cpu_started = time.process_time()
            uploaded = await upload_weights(
                client, folder / "v1", given, num_parallel=options.parallel
            )
            found[name] = {
                "bytes": uploaded.num_sent_bytes,
                "seconds": round(uploaded.took_s, 3),
                "cpu_seconds": round(time.process_time() - cpu_started, 3),
                "deltas": f"{uploaded.num_deltas} of {uploaded.num_chunks}",
            }
        started = time.perf_counter()
        policy = PolicyVersion(version=1, digest=checkpoint.digest(folder / "v1"))
        source = UploadedWeights(upload=uploaded.id)
        await client.update_weights(WeightUpdate(source=source, policy=policy))
        found["checked_and_loaded_s"] = round(time.perf_counter() - started, 3)
    server.should_exit = True
    await serving
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", choices=sorted(_LAYERS), default="bfloat16")
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--port", type=int, default=18_601)
    options = parser.parse_args()
    quiet_transformers()
    config = NewPolicyConfig(
        vocabulary_size=512,
        hidden_size=512,
        intermediate_size=1408,
        num_layers=_LAYERS[options.dtype],
        num_heads=8,
    )
    folder = Path(tempfile.mkdtemp(prefix="assay-upload-"))
    try:
        model, tokenizer = create_policy(config, _TEXTS, seed=0)
        dtype = getattr(torch, options.dtype)
        share = stepped(model, dtype, options.learning_rate, folder)
        for name in ("v0", "v1"):
            tokenizer.save_pretrained(folder / name)
        facts = {"dtype": options.dtype, "learning_rate": options.learning_rate}
        found = asyncio.run(measure(folder, options))
        print(json.dumps(facts | {"changed": round(share, 4)} | found))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
