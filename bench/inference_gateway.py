"""Compares tokens a second of the inference service and of the vLLM it runs, asked directly.

    python -m bench.inference_gateway MODEL --output bench/results/inference_gateway.json

A service with a single vLLM. Requests of the same lengths are sent in turns to the service
(`/v1/generate`) and to the same vLLM on its own socket (`/v1/completions`, token ids in and out,
log-probabilities of the sampled tokens). The number of sequences in flight is constant. vLLM's own
counter gives the tokens of a window. Every answer's length is checked. No prompt is sent twice, so
none is in the prefix cache.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from bench.inference_service import Target, requests_of, service, socket_of, steady
from bench.logprob_agreement import compared, sample


async def compare(
    targets: list[Target],
    concurrency: int,
    num_samples: int,
    vocabulary: int,
    turns: int,
    window_s: float,
) -> dict[str, Any]:
    """Measure both in turns, in alternating order; return the rates and the ratio of each turn."""
    at_once = max(1, concurrency // num_samples)

    async def rate(target: Target, turn: int) -> float:
        name = f"{target.name} {concurrency}"
        requests = requests_of(num_samples, vocabulary, turn, name)
        return await steady(target, targets[1], requests, at_once, window_s)

    for target in targets:
        await rate(target, -1)
    rates: dict[str, list[float]] = {target.name: [] for target in targets}
    for turn in range(turns):
        order = targets if turn % 2 == 0 else targets[::-1]
        for target in order:
            rates[target.name].append(await rate(target, turn))
            print(f"  {concurrency} {target.name}: {rates[target.name][-1]:.0f}/s", file=sys.stderr)
    ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
    middle = scipy.stats.bootstrap((ratios,), np.median, method="percentile", rng=0)
    return {
        "concurrency": concurrency,
        "samples_per_request": num_samples,
        "tokens_per_s": {name: round(statistics.median(r)) for name, r in rates.items()},
        "ratios": [round(ratio, 4) for ratio in ratios],
        "ratio": round(statistics.median(ratios), 4),
        "ratio_95": [round(float(end), 4) for end in middle.confidence_interval],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--samples", type=int, nargs="+", default=[1], help="per request")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--window-s", type=float, default=15)
    parser.add_argument("--arguments", default="", help="more of vLLM's own options")
    parser.add_argument(
        "--agreement", metavar="DEVICE", help="also logprob_agreement, computed there"
    )
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    vocabulary = json.loads((asked.model / "config.json").read_text())["vocab_size"]
    environment = {
        "ASSAY_INFERENCE_MAX_SEQUENCES": str(max(asked.concurrency)),
        "ASSAY_INFERENCE_VLLM_ARGUMENTS": asked.arguments,
    }
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        service(asked.model, environment, Path(folder)) as (url, pid),
    ):
        targets = [
            Target("service", f"{url}/v1/generate"),
            Target("vllm", "http://vllm/v1/completions", socket_of(pid)),
        ]
        for concurrency in asked.concurrency:
            for num_samples in asked.samples:
                found = compare(
                    targets, concurrency, num_samples, vocabulary, asked.turns, asked.window_s
                )
                rows.append(asyncio.run(found))
                print(json.dumps(rows[-1]))
                asked.output.write_text(json.dumps(rows, indent=2) + "\n")
        if asked.agreement:
            completions = asyncio.run(sample(url, vocabulary))
    if asked.agreement:
        rows.append({"agreement": compared(asked.model, completions, asked.agreement)})
        print(json.dumps(rows[-1]))
        asked.output.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
