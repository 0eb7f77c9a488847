"""Measures latency added by the reward service to sandbox and judge, and answers it verifies.

    python bench/reward_overhead.py

Real processes on loopback: the reward service and its neighbours. The neighbours answer at once, so
the rest of the latency is the service's own. Added: the latency of a score through the service, a
single request at a time, less the latency of the same question sent to the neighbour directly; and
the service's processor time. Verified: groups of eight answers to maths, choice and exact-match
tasks, in batches, per second of the service's processor time.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import uvloop

from assay_shared.runtime.processes import end, spawn

OUTPUT = Path(__file__).parent / "results" / "reward_overhead.json"
_GROUP = 8
_TURNS = 7
_REQUESTS = 500
_BATCH_GROUPS = 32
_START_TIMEOUT_S = 60.0
_TASK = {"dataset": "bench", "role": "train", "prompt": "What is it?"}
_JUDGED = {
    "status": "judged",
    "label": "CORRECT",
    "judge": "instant",
}
_REPORT = {
    "status": "accepted",
    "cases": [{"status": "accepted"}] * 4,
    "grading": "outside",
    "isolation": "none",
}
_NEIGHBOURS: dict[str, dict[str, Any]] = {
    "sandbox": _REPORT,
    "judge": {"judgements": [_JUDGED]},
}
_VERIFIED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "math": ({"reference": "18"}, ["She makes 9 * 2 = 18 dollars.\n#### {n}"]),
    "choice": (
        {"checks": {"choice": {"options": ["Paris", "Rome", "Oslo", "Bern"], "answer": "B"}}},
        ["I read it {n} times. The answer is (B)."],
    ),
    "exact": ({"reference": "Eiffel Tower"}, ["The Eiffel Tower", "The Eiffel Tower {n}"]),
}
_EXACT_RUBRIC = """\
name: exact
description: The words of the reference.
components:
  - {verifier: exact_match, weight: 1.0}
"""


class Processes:
    """The started processes, with their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Any] = []

    def start(self, name: str, command: list[str], environment: dict[str, str]) -> str:
        """Start a process, wait for it to log its address, and return the address."""
        log = self.folder / f"{name}.log"
        process = spawn([sys.executable, *command], log=log, environment=environment)
        self.started.append(process)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            _, found, address = log.read_text().partition("listening on ")
            if found and "\n" in address:
                return address.split('"')[0].split()[0]
            time.sleep(0.05)
        raise SystemExit(f"{name} does not start: {log.read_text()[-2000:]}")


@contextmanager
def services(folder: Path) -> Iterator[tuple[dict[str, str], psutil.Process]]:
    """Start all processes; yield their addresses, and the process of the reward service."""
    processes = Processes(folder)
    script = str(Path(__file__).parent / "instant_upstream.py")
    (folder / "exact.yaml").write_text(_EXACT_RUBRIC)
    try:
        environment = {
            "PATH": "/usr/bin:/bin",
            # Run the same code as this script.
            "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
            "ASSAY_REWARD_RUBRICS": str(folder),
        }
        urls = {}
        for name, answer in _NEIGHBOURS.items():
            reply = folder / f"{name}.json"
            reply.write_text(json.dumps(answer))
            urls[name] = processes.start(name, [script, "--reply", str(reply)], environment)
            environment[f"ASSAY_{name.upper()}_URL"] = urls[name]
        command = ["-m", "assay_shared.cli", "reward", "serve", "--port", "0"]
        urls["reward"] = processes.start("reward", command, environment)
        yield urls, psutil.Process(processes.started[-1].pid)
    finally:
        end(processes.started, 10.0)


def score_body(rubric: str, answers: list[str], number: int) -> dict[str, Any]:
    task = _TASK | {"id": f"t{number}", "rubric": rubric, "gold": "18"}
    if rubric.startswith("code"):
        task["tests"] = [{"kind": "stdin", "stdin": "1", "expected_stdout": "1"}] * 4
    return {"task": task, "answers": answers}


async def latencies(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], num: int
) -> list[float]:
    """Send `num` requests in sequence and return their latencies in milliseconds."""
    found: list[float] = []
    content = json.dumps(body).encode()
    for _ in range(num):
        began = time.perf_counter()
        async with session.post(url, data=content) as response:
            text = await response.read()
            assert response.status == 200, text
        found.append(1000 * (time.perf_counter() - began))
    return found


async def added(
    session: aiohttp.ClientSession, urls: dict[str, str], process: psutil.Process
) -> list[dict[str, Any]]:
    """Return the cost of a score compared with asking the neighbour directly, in turns."""
    tests = [{"kind": "stdin", "stdin": "1", "expected_stdout": "1"}] * 4
    direct = {
        "sandbox": ("/v1/test", {"code": "print(input())", "cases": tests}),
        "judge": ("/v1/judge", {"question": "What is it?", "answers": ["18"], "reference": "18"}),
    }
    scored = {"sandbox": "code.dense", "judge": "qa"}
    rows = []
    for name, (path, body) in direct.items():
        through = score_body(scored[name], ["print(input())"], 0)
        turns: dict[str, list[list[float]]] = {"direct": [], "through": []}
        began = cpu_s(process)
        for _ in range(_TURNS):
            found = await latencies(session, urls[name] + path, body, _REQUESTS)
            turns["direct"].append(found)
            found = await latencies(session, urls["reward"] + "/v1/score", through, _REQUESTS)
            turns["through"].append(found)
        cpu_ms = 1000 * (cpu_s(process) - began) / _TURNS / _REQUESTS
        rows.append({"neighbour": name, "cpu_ms": round(cpu_ms, 3)} | _added(turns))
        print(rows[-1], flush=True)
    return rows


def cpu_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _added(turns: dict[str, list[list[float]]]) -> dict[str, float]:
    facts = {}
    for share in (50, 99):
        at = {
            way: [statistics.quantiles(found, n=100)[share - 1] for found in lists]
            for way, lists in turns.items()
        }
        pairs = zip(at["through"], at["direct"], strict=True)
        differences = sorted(through - direct for through, direct in pairs)
        facts |= {
            f"through_p{share}_ms": statistics.median(at["through"]),
            f"added_p{share}_ms": statistics.median(differences),
            f"added_p{share}_lowest_ms": differences[0],
            f"added_p{share}_highest_ms": differences[-1],
        }
    return {name: round(value, 3) for name, value in facts.items()}


async def verified(
    session: aiohttp.ClientSession, url: str, process: psutil.Process, num_batches: int
) -> list[dict[str, Any]]:
    """Return scores a second, and per second of processor time, for rubrics without neighbours."""
    rows = []
    for rubric, (changes, texts) in _VERIFIED.items():
        bodies = [json.dumps(batch_body(rubric, changes, texts, at)).encode() for at in range(16)]
        await post_all(session, url, bodies)
        rates = []
        for _ in range(5):
            used_s, began = cpu_s(process), time.perf_counter()
            for _ in range(num_batches // len(bodies)):
                await post_all(session, url, bodies)
            took_s = time.perf_counter() - began
            used_s = cpu_s(process) - used_s
            num = num_batches // len(bodies) * len(bodies) * _BATCH_GROUPS * _GROUP
            rates.append((num / used_s, num / took_s))
        per_core = sorted(rate for rate, _ in rates)
        rows.append(
            {
                "rubric": rubric,
                "per_core_s": round(statistics.median(per_core)),
                "lowest": round(per_core[0]),
                "highest": round(per_core[-1]),
                "per_s": round(statistics.median(rate for _, rate in rates)),
            }
        )
        print(rows[-1], flush=True)
    return rows


def batch_body(rubric: str, changes: dict[str, Any], texts: list[str], at: int) -> dict[str, Any]:
    """Return a batch of groups without equal answers."""
    groups = []
    for number in range(_BATCH_GROUPS):
        numbers = range(_GROUP * number, _GROUP * (number + 1))
        answers = [texts[n % len(texts)].format(n=n + 1000 * at) for n in numbers]
        group = score_body(rubric, answers, number)
        group["task"] |= changes
        groups.append(group)
    return {"requests": groups}


async def post_all(session: aiohttp.ClientSession, url: str, bodies: list[bytes]) -> None:
    for body in bodies:
        async with session.post(url + "/v1/score/batch", data=body) as response:
            content = await response.read()
            assert response.status == 200, content
            assert b'"failed"' not in content, content[:2000]


async def measure(urls: dict[str, str], process: psutil.Process, batches: int) -> dict[str, Any]:
    headers = {"content-type": "application/json"}
    async with aiohttp.ClientSession(headers=headers) as session:
        return {
            "verified": await verified(session, urls["reward"], process, batches),
            "added": await added(session, urls, process),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, services(Path(folder)) as (urls, process):
        found = uvloop.run(measure(urls, process, arguments.batches))
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
