"""Measures the differences of vLLM's log-probabilities from the trainer's, for the same weights.

    python -m bench.logprob_agreement MODEL --device cuda:1 --output bench/results/agreement.json

The service samples from random prompts at temperature 1; transformers computes the log-probability
of every sampled token in a forward pass, in the weights' own type and in float32. Differences are
of single tokens, in nats; KL(engine || trainer) is the k3 estimate: the mean of exp(d) - 1 - d with
d = trainer's - engine's (Schulman, 2020).
"""

import argparse
import asyncio
import json
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from bench.inference_service import Request, Target, requests_of, service

_NUM_PROMPTS = 64


async def sample(url: str, vocabulary: int) -> list[dict[str, Any]]:
    """Return two completions of each prompt, with their prompts."""
    requests = islice(requests_of(2, vocabulary, 0, "agreement"), _NUM_PROMPTS)
    target = Target("service", f"{url}/v1/generate")

    async def one(session: aiohttp.ClientSession, request: Request) -> list[dict[str, Any]]:
        async with session.post(target.url, json=target.body(request)) as response:
            answer = await response.json()
            assert response.status == 200, answer
        return [c | {"prompt": answer["prompt_token_ids"]} for c in answer["completions"]]

    async with aiohttp.ClientSession() as session:
        found = await asyncio.gather(*(one(session, request) for request in requests))
    return [completion for completions in found for completion in completions]


@torch.no_grad()
def logprobs(model: PreTrainedModel, completion: dict[str, Any]) -> torch.Tensor:
    """Return the model's log-probabilities of the sampled tokens (C,), on the CPU."""
    prompt, sampled = completion["prompt"], completion["token_ids"]
    ids_1T = torch.tensor([prompt + sampled], device=model.device)
    logits_CV = model(input_ids=ids_1T).logits[0, len(prompt) - 1 : -1].float()
    chosen_C1 = torch.tensor(sampled, device=model.device)[:, None]
    return logits_CV.log_softmax(dim=-1).gather(1, chosen_C1)[:, 0].cpu()


def differences(
    folder: Path, completions: list[dict[str, Any]], dtype: torch.dtype, device: str
) -> dict[str, float]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, device_map=device).eval()
    found = torch.cat(
        [logprobs(model, one) - torch.tensor(one["logprobs"]) for one in completions]
    ).double()
    return {
        "tokens": len(found),
        "mean_absolute_nats": float(found.abs().mean()),
        "p99_absolute_nats": float(found.abs().quantile(0.99)),
        "max_absolute_nats": float(found.abs().max()),
        "kl_k3_nats": float((found.exp() - 1 - found).mean()),
    }


def compared(
    folder: Path, completions: list[dict[str, Any]], device: str
) -> dict[str, dict[str, float]]:
    """Return the differences from the trainer's forward pass in bfloat16 and in float32."""
    return {
        str(dtype).removeprefix("torch."): differences(folder, completions, dtype, device)
        for dtype in (torch.bfloat16, torch.float32)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--device", default="cpu", help="of the trainer's forward passes")
    parser.add_argument("--arguments", default="", help="more of vLLM's own options")
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    vocabulary = json.loads((asked.model / "config.json").read_text())["vocab_size"]
    environment = {"ASSAY_INFERENCE_VLLM_ARGUMENTS": asked.arguments}
    with (
        tempfile.TemporaryDirectory() as folder,
        service(asked.model, environment, Path(folder)) as (url, _),
    ):
        completions = asyncio.run(sample(url, vocabulary))
    rows = compared(asked.model, completions, asked.device)
    asked.output.write_text(json.dumps(rows, indent=2) + "\n")
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
