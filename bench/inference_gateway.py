"""What the inference service costs beside the vLLM that it runs: tokens a second, both ways.

    python -m bench.inference_gateway MODEL --concurrency 256 1024 --output bench/results/gateway.json

One service with one vLLM. Requests of the same lengths are sent in turns to the service
(`/v1/generate`) and to that very vLLM on its own socket (`/v1/completions`, token ids in and out,
log-probabilities of the sampled tokens): a closed loop of so many sequences at once, until all are
done. Every answer is counted and its length checked. No prompt comes twice, so none is in the
prefix cache.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from assay_shared.processes import end, spawn

_START_TIMEOUT_S = 400.0
_REQUEST_TIMEOUT_S = 300.0
_PROMPT_TOKENS = (64, 256)
_NEW_TOKENS = (64, 448)


@dataclass(frozen=True)
class Request:
    """`num_samples` answers to one prompt, none of which ends by itself (as good as never)."""

    prompt: list[int]
    num_tokens: int
    num_samples: int
    seed: int


@dataclass(frozen=True)
class Target:
    """One way to the same engine."""

    name: str
    url: str
    socket: str | None = None

    def connector(self) -> aiohttp.BaseConnector:
        if self.socket is not None:
            return aiohttp.UnixConnector(self.socket, limit=0)
        return aiohttp.TCPConnector(limit=0)

    def body(self, request: Request) -> dict[str, Any]:
        if self.socket is None:
            return {
                "token_ids": request.prompt,
                "sampling": {
                    "n": request.num_samples,
                    "max_tokens": request.num_tokens,
                    "temperature": 1.0,
                    "seed": request.seed,
                },
            }
        return {
            "model": "policy",
            "prompt": request.prompt,
            "n": request.num_samples,
            "max_tokens": request.num_tokens,
            "temperature": 1.0,
            "seed": request.seed,
            "logprobs": 0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }

    def num_tokens(self, answer: dict[str, Any]) -> int:
        choices = answer["completions" if self.socket is None else "choices"]
        return sum(len(choice["token_ids"]) for choice in choices)


def requests_of(
    num: int, num_samples: int, vocabulary: int, turn: int, name: str
) -> list[Request]:
    """The same lengths for all in one turn, and prompts that nobody else has."""
    lengths, ids = random.Random(turn), random.Random(f"{turn}/{name}")
    return [
        Request(
            [ids.randrange(300, vocabulary - 300) for _ in range(lengths.randint(*_PROMPT_TOKENS))],
            lengths.randint(*_NEW_TOKENS),
            num_samples,
            ids.randrange(2**31),
        )
        for _ in range(num)
    ]


async def play(target: Target, requests: list[Request], at_once: int) -> dict[str, float]:
    """Tokens a second over the whole of `requests`, `at_once` of them in hand."""
    waiting = iter(requests)
    counted: list[int] = []
    latencies: list[float] = []

    async def client(session: aiohttp.ClientSession) -> None:
        for request in waiting:
            began = time.perf_counter()
            async with session.post(target.url, json=target.body(request)) as response:
                text = await response.read()
                assert response.status == 200, text[:500]
            latencies.append(time.perf_counter() - began)
            num = target.num_tokens(json.loads(text))
            assert num >= 0.9 * request.num_tokens * request.num_samples, num
            counted.append(num)

    timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=target.connector(), timeout=timeout) as session:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as clients:
            for _ in range(at_once):
                clients.create_task(client(session))
        took_s = time.perf_counter() - began
    assert len(counted) == len(requests)
    return {"tokens_per_s": sum(counted) / took_s, "p50_s": statistics.median(latencies)}


@contextmanager
def service(model: Path, environment: dict[str, str], folder: Path) -> Iterator[tuple[str, int]]:
    """The address of an inference service that serves `model`, and its process id."""
    log = folder / "inference.log"
    command = [sys.executable, "-m", "assay_shared.cli", "inference", "serve", "--port", "0"]
    settings = {"ASSAY_INFERENCE_ENGINE": "vllm", "ASSAY_LOG_LEVEL": "INFO"}
    process = spawn(
        [*command, "--model", str(model)], log=log, environment=os.environ | settings | environment
    )
    try:
        yield _address(log, process), process.pid
    finally:
        end([process], 20.0)


def _address(log: Path, process: Any) -> str:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        _, found, address = log.read_text().partition("listening on ")
        if found and "\n" in address:
            return str(address.split('"')[0].split()[0])
        time.sleep(0.2)
    raise SystemExit(f"inference does not start: {log.read_text()[-3000:]}")


def socket_of(pid: int) -> str:
    """Where the service's vLLM listens."""
    for child in psutil.Process(pid).children(recursive=True):
        command = child.cmdline()
        if "--uds" in command:
            return command[command.index("--uds") + 1]
    raise SystemExit("the service has no vLLM")


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
            requests = requests_of(3 * at_once, num_samples, vocabulary, turn, target.name)
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
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    vocabulary = json.loads((asked.model / "config.json").read_text())["vocab_size"]
    environment = {
        "ASSAY_INFERENCE_MAX_SEQUENCES": str(max(asked.concurrency)),
        "ASSAY_INFERENCE_VLLM_ARGUMENTS": asked.arguments,
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with service(asked.model, environment, Path(folder)) as (url, pid):
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


if __name__ == "__main__":
    main()
