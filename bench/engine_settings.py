"""Measures tokens a second of a GPU under different settings of the inference service.

    python -m bench.engine_settings MODEL --output bench/results/engine_settings.json

With a small model, vLLM's host work is the bottleneck, not the GPU. Each row is the service with
other settings, under the same requests: samples of random prompts with log-probabilities. The first
row is the service with its defaults; ratios are to this row. A setting that does not start is
reported as a failure.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bench.inference_service import Target, play, requests_of, service

_GRAPHS = "--max-cudagraph-capture-size 1024"
#: Then vLLM makes no texts, neither of answers nor of the tokens it returns log-probabilities of.
_NO_TEXTS = "--skip-tokenizer-init"


@dataclass(frozen=True)
class Setting:
    """Environment variables (limits are for each process), and the sequences requested at once."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    at_once: int = 1024
    num_samples: int = 8


def _vllm(num_sequences: int, arguments: str = "", processes: int = 1) -> dict[str, str]:
    found = {
        "ASSAY_INFERENCE_MAX_SEQUENCES": str(num_sequences),
        "ASSAY_INFERENCE_VLLM_ARGUMENTS": arguments,
    }
    if processes > 1:
        share = f"--gpu-memory-utilization {0.88 / processes:.2f}"
        found["ASSAY_INFERENCE_PROCESSES"] = str(processes)
        found["ASSAY_INFERENCE_VLLM_ARGUMENTS"] = f"{arguments} {share}".strip()
    return found


SETTINGS = (
    Setting("as it is: 256 sequences"),
    Setting("1024 sequences", _vllm(1024)),
    Setting("1024 sequences, CUDA graphs to 1024", _vllm(1024, _GRAPHS)),
    Setting("2 processes x 512", _vllm(512, processes=2)),
    Setting("4 processes x 256", _vllm(256, processes=4)),
    Setting("4 processes x 512", _vllm(512, processes=4), at_once=2048),
    Setting("8 processes x 256", _vllm(256, processes=8), at_once=2048),
    Setting("1024 sequences, no texts", _vllm(1024, _NO_TEXTS)),
    Setting("4 processes x 256, no texts", _vllm(256, _NO_TEXTS, processes=4)),
    Setting("8 processes x 128, no texts", _vllm(128, _NO_TEXTS, processes=8)),
)


async def measure(url: str, setting: Setting, vocabulary: int, turns: int) -> list[float]:
    """Return the tokens a second of each turn, without a first turn for warm-up."""
    target = Target("service", f"{url}/v1/generate")
    at_once = setting.at_once // setting.num_samples
    rates = []
    for turn in range(-1, turns):
        num = (1 if turn < 0 else 2) * at_once
        requests = list(
            islice(requests_of(setting.num_samples, vocabulary, turn, setting.name), num)
        )
        rates.append((await play(target, requests, at_once))["tokens_per_s"])
    return rates[1:]


def try_setting(model: Path, setting: Setting, vocabulary: int, turns: int) -> dict[str, Any]:
    began = time.monotonic()
    row: dict[str, Any] = {"setting": setting.name, "at_once": setting.at_once}
    with tempfile.TemporaryDirectory() as folder:
        try:
            with service(model, setting.environment, Path(folder)) as (url, _):
                row["start_s"] = round(time.monotonic() - began)
                rates = asyncio.run(measure(url, setting, vocabulary, turns))
        except (SystemExit, ExceptionGroup, AssertionError) as error:
            return row | {"failure": str(error)[-600:]}
    row["tokens_per_s"] = round(statistics.median(rates))
    row["low"], row["high"] = round(min(rates)), round(max(rates))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="numbers of settings, from 0")
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    vocabulary = json.loads((asked.model / "config.json").read_text())["vocab_size"]
    chosen = [int(n) for n in asked.only] if asked.only else range(len(SETTINGS))
    rows: list[dict[str, Any]] = []
    for number in chosen:
        row = try_setting(asked.model, SETTINGS[number], vocabulary, asked.turns)
        if rows and "tokens_per_s" in row and "tokens_per_s" in rows[0]:
            row["ratio"] = round(row["tokens_per_s"] / rows[0]["tokens_per_s"], 2)
        rows.append(row)
        print(json.dumps(row), file=sys.stderr)
        asked.output.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
