"""What the inference service costs beside the vLLM that it runs: tokens a second, both ways.

    python -m bench.inference_gateway MODEL --output bench/results/inference_gateway.json

One service with one vLLM. Requests of the same lengths are sent in turns to the service
(`/v1/generate`) and to that very vLLM on its own socket (`/v1/completions`, token ids in and out,
log-probabilities of the sampled tokens): a closed loop of so many sequences at once, until all are
done. Every answer is counted and its length checked. No prompt comes twice, so none is in the
prefix cache.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.inference_service import Target, play, requests_of, service, socket_of
from bench.logprob_agreement import compared, sample


async def compare(
    targets: list[Target], concurrency: int, num_samples: int, vocabulary: int, turns: int
) -> dict[str, Any]:
    """Turns of both, in either order; the ratio of each turn."""
    at_once = max(1, concurrency // num_samples)
    for target in targets:
        warm_up = requests_of(at_once, num_samples, vocabulary, -concurrency, target.name)
        await play(target, warm_up, at_once)
    rates: dict[str, list[float]] = {target.name: [] for target in targets}
    for turn in range(turns):
        order = targets if turn % 2 == 0 else targets[::-1]
        for target in order:
            requests = requests_of(2 * at_once, num_samples, vocabulary, turn, target.name)
            found = await play(target, requests, at_once)
            rates[target.name].append(found["tokens_per_s"])
            print(f"  {concurrency} {target.name}: {found['tokens_per_s']:.0f}/s", file=sys.stderr)
    ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
    return {
        "concurrency": concurrency,
        "samples_per_request": num_samples,
        "tokens_per_s": {name: round(statistics.median(r)) for name, r in rates.items()},
        "ratio": round(statistics.median(ratios), 4),
        "ratio_low": round(min(ratios), 4),
        "ratio_high": round(max(ratios), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--samples", type=int, nargs="+", default=[1], help="per request")
    parser.add_argument("--turns", type=int, default=3)
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
                found = compare(targets, concurrency, num_samples, vocabulary, asked.turns)
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
