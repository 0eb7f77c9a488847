"""Starts an inference service with its vLLM, and sends requests to either of them."""

import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import psutil

from assay_shared.runtime.processes import end, spawn

_START_TIMEOUT_S = 400.0
_REQUEST_TIMEOUT_S = 300.0
_PROMPT_TOKENS = (64, 256)
_NEW_TOKENS = (64, 448)


@dataclass(frozen=True)
class Request:
    """A request of `num_samples` answers to a prompt; random models hardly ever end them early."""

    prompt: list[int]
    num_tokens: int
    num_samples: int
    seed: int


@dataclass(frozen=True)
class Target:
    """An address of the engine: through the service, or vLLM's own socket."""

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


def requests_of(num_samples: int, vocabulary: int, turn: int, name: str) -> Iterator[Request]:
    """Yield requests without end: the same lengths for every name in a turn, and unique prompts."""
    lengths, ids = random.Random(turn), random.Random(f"{turn}/{name}")
    while True:
        yield Request(
            [ids.randrange(300, vocabulary - 300) for _ in range(lengths.randint(*_PROMPT_TOKENS))],
            lengths.randint(*_NEW_TOKENS),
            num_samples,
            ids.randrange(2**31),
        )


async def play(target: Target, requests: list[Request], at_once: int) -> dict[str, float]:
    """Send all requests, `at_once` in flight; return tokens a second and the median latency."""
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
            assert 0 < num <= request.num_tokens * request.num_samples, num
            counted.append(num)

    timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=target.connector(), timeout=timeout) as session:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as clients:
            for _ in range(at_once):
                clients.create_task(client(session))
        took_s = time.perf_counter() - began
    asked = sum(request.num_tokens * request.num_samples for request in requests)
    assert sum(counted) > 0.7 * asked, "random models hardly ever end an answer"
    return {"tokens_per_s": sum(counted) / took_s, "p50_s": statistics.median(latencies)}


async def steady(
    target: Target, engine: Target, requests: Iterator[Request], at_once: int, window_s: float
) -> float:
    """Return tokens a second in a window, by vLLM's counter, with `at_once` requests in flight.

    The counter is read on the engine's own socket for both targets. The window starts after half a
    window of warm-up. Every answer is checked.
    """

    async def client(session: aiohttp.ClientSession) -> None:
        for request in requests:
            async with session.post(target.url, json=target.body(request)) as response:
                text = await response.read()
                assert response.status == 200, text[:500]
            num = target.num_tokens(json.loads(text))
            assert 0 < num <= request.num_tokens * request.num_samples, num

    timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
    async with (
        aiohttp.ClientSession(connector=target.connector(), timeout=timeout) as session,
        aiohttp.ClientSession(connector=engine.connector(), timeout=timeout) as meter,
        asyncio.TaskGroup() as group,
    ):
        clients = [group.create_task(client(session)) for _ in range(at_once)]
        await asyncio.sleep(window_s / 2)
        began, before = time.perf_counter(), await _num_drawn(meter)
        await asyncio.sleep(window_s)
        took_s, drawn = time.perf_counter() - began, await _num_drawn(meter) - before
        for one in clients:
            one.cancel()
    return drawn / took_s


async def _num_drawn(meter: aiohttp.ClientSession) -> float:
    async with meter.get("http://vllm/metrics") as response:
        text = await response.text()
    counts = [
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith("vllm:generation_tokens_total")
    ]
    assert counts, "vLLM counts no tokens"
    return sum(counts)


@contextmanager
def service(model: Path, environment: dict[str, str], folder: Path) -> Iterator[tuple[str, int]]:
    """Start an inference service for `model`; yield its address and its process id."""
    log = folder / "inference.log"
    command = [sys.executable, "-m", "assay_shared.cli", "inference", "serve", "--port", "0"]
    settings = {"ASSAY_INFERENCE_ENGINE": "vllm", "ASSAY_LOG_LEVEL": "INFO"}
    process = spawn(
        [*command, "--model", str(model)], log=log, environment=os.environ | settings | environment
    )
    try:
        url = _address(log, process)
        _wait_ready(url, log, process)
        yield url, process.pid
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


def _wait_ready(url: str, log: Path, process: Any) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/ready", timeout=5).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise SystemExit(f"inference is not ready: {log.read_text()[-3000:]}")


def socket_of(pid: int) -> str:
    """Return the path of the socket of the service's vLLM."""
    for child in psutil.Process(pid).children(recursive=True):
        command = child.cmdline()
        if "--uds" in command:
            return command[command.index("--uds") + 1]
    raise SystemExit("the service has no vLLM")
