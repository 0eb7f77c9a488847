"""Measures latencies of plain answers and /health while bombs (slow answers) are scored.

    python bench/reward_bombs.py

A real reward service on loopback, started again for each kind of bomb. Plain answers, half of them
numbers and half formulas, come at a steady rate: first without bombs, then with every tenth request
a bomb, from the same client or from another client. /health is requested all the time.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from assay_shared.runtime.processes import end, spawn

OUTPUT = Path(__file__).parent / "results" / "reward_bombs.json"
_RATE_PER_S = 10.0
_EVERY = 10
_HEALTH_EVERY_S = 0.05
_START_TIMEOUT_S = 60.0
_WARM_UP = 40
_RUBRICS = {"pattern": "pattern", "json": "json_schema", "constraints": "constraints", "f1": "f1"}
_TREE = {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["b"]}] * 2}


def nested(depth: int) -> str:
    """Return nested JSON; the schema checks each level twice and never accepts it."""
    return '{"a":' * depth + "1" + "}" * depth


def long(unit: str, length: int = 1_000_000) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def instruction(name: str, **kwargs: object) -> dict[str, Any]:
    return {"constraints": {"instruction_id_list": [name], "kwargs": [kwargs]}}


#: The rubric, the task's own fields, and the bomb's text; `n` makes each text unique.
Bomb = tuple[str, dict[str, Any], Callable[[int], str]]
BOMBS: dict[str, Bomb] = {
    "power tower": ("math", {"reference": r"\boxed{2}"}, lambda n: rf"\boxed{{9^{{9^{{9^{n}}}}}}}"),
    "product": (
        "math",
        {"reference": r"\boxed{x+1}"},
        lambda n: "\\boxed{" + "".join(rf"(\sqrt{{x+{n + k}}}+y)" for k in range(28)) + "}",
    ),
    "expansion": (
        "math",
        {"reference": r"\boxed{x+1}"},
        lambda n: rf"\boxed{{(x+y+z+w+{n})^{{60}}}}",
    ),
    "pattern": (
        "pattern",
        {"checks": {"pattern": {"pattern": "(a|aa)+$"}}},
        lambda n: "a" * (60 + n % 20) + "b",
    ),
    "schema": ("json", {"checks": {"json_schema": {"schema": _TREE}}}, lambda n: nested(40)),
    "marks": (
        "constraints",
        {"checks": instruction("length_constraints:number_sentences", num_sentences=3,
                               relation="at least")},
        lambda n: long("!") + "x",
    ),
    "newlines": (
        "choice",
        {"checks": {"choice": {"options": ["Paris", "Rome"], "answer": "B"}}},
        lambda n: "The answer is" + long("\n"),
    ),
    "fences": (
        "json",
        {"checks": {"json_schema": {"schema": {"type": "object"}}}},
        lambda n: long("```\n"),
    ),
    "words": ("f1", {"reference": "Paris"}, lambda n: long("a b c ")),
}  # fmt: skip


def body(rubric: str, changes: dict[str, Any], answer: str) -> bytes:
    task = {"id": "t", "dataset": "bench", "role": "train", "prompt": "?", "rubric": rubric}
    return json.dumps({"task": task | changes, "answers": [answer]}).encode()


def plain(number: int) -> bytes:
    """Return a request to score a number or a formula; its text is unique to `number`."""
    if number % 2:
        return body("math", {"reference": "18"}, f"#### {number}")
    return body(
        "math",
        {"reference": r"\boxed{\frac{x}{2}}"},
        rf"\boxed{{\frac{{{number}x}}{{{number + 1}}}}}",
    )


class Client:
    """A client with its own address."""

    def __init__(self, url: str, address: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(local_addr=(address, 0), limit=0),
            headers={"content-type": "application/json"},
        )

    async def score(self, content: bytes) -> tuple[float, dict[str, Any]]:
        """Send a request; return the latency in milliseconds and the reward."""
        began = time.perf_counter()
        async with self._session.post(self._url + "/v1/score", data=content) as response:
            answer = json.loads(await response.read())
            assert response.status == 200, answer
        return 1000 * (time.perf_counter() - began), answer["rewards"][0]

    async def health(self) -> float:
        began = time.perf_counter()
        async with self._session.get(self._url + "/health") as response:
            await response.read()
        return 1000 * (time.perf_counter() - began)

    async def close(self) -> None:
        await self._session.close()


async def turn(
    own: Client, other: Client, bomb: Bomb | None, first: int, duration_s: float
) -> tuple[dict[str, list[float]], list["asyncio.Task[Any]"]]:
    """Return the latencies of numbers, formulas and /health in a turn, and the bombs' tasks."""
    found: dict[str, list[float]] = {"numbers": [], "formulas": [], "health": []}
    bombs: list[asyncio.Task[Any]] = []
    asked: list[tuple[str, asyncio.Task[Any]]] = []
    probing = asyncio.create_task(probe(own, found["health"]))
    began = time.perf_counter()
    for number in range(int(duration_s * _RATE_PER_S)):
        await asyncio.sleep(max(0.0, began + number / _RATE_PER_S - time.perf_counter()))
        at = first + number
        if bomb is not None and number % _EVERY == 0:
            rubric, changes, text = bomb
            bombs.append(asyncio.create_task(other.score(body(rubric, changes, text(at)))))
        else:
            kind = "numbers" if at % 2 else "formulas"
            asked.append((kind, asyncio.create_task(own.score(plain(at)))))
    for kind, task in asked:
        found[kind].append((await task)[0])
    probing.cancel()
    return found, bombs


async def probe(client: Client, found: list[float]) -> None:
    while True:
        found.append(await client.health())
        await asyncio.sleep(_HEALTH_EVERY_S)


def at(share: int, latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[share - 1]


async def measure(
    url: str, bomb: Bomb, whose: str, turns: int, duration_s: float
) -> dict[str, Any]:
    """Return the latencies without bombs and with bombs, and the numbers of bombs."""
    own, other = Client(url, "127.0.0.1"), Client(url, "127.0.0.2")
    for number in range(_WARM_UP):
        await own.score(plain(-2 * number - 4))
    found: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}
    bombs: list[asyncio.Task[Any]] = []
    sender = own if whose == "own" else other
    for number, with_bombs in enumerate([False] * turns + [True] * turns):
        first = 10 + 1000 * number
        latencies, sent = await turn(own, sender, bomb if with_bombs else None, first, duration_s)
        bombs += sent
        for kind, of_kind in latencies.items():
            found[with_bombs].setdefault(kind, []).extend(of_kind)
    scored = [task.result()[1] for task in bombs if task.done()]
    assert all(one["status"] == "scored" and one["value"] == 0 for one in scored), scored
    for task in bombs:
        task.cancel()
    await own.close()
    await other.close()
    return {"num_bombs": len(bombs), "num_scored": len(scored)} | _facts(found)


def _facts(turns: dict[bool, dict[str, list[float]]]) -> dict[str, float]:
    facts = {}
    for kind in ("numbers", "formulas", "health"):
        for share in (50, 99):
            without, with_bombs = (at(share, turns[one][kind]) for one in (False, True))
            facts[f"{kind}_p{share}_without_ms"] = round(without, 1)
            facts[f"{kind}_p{share}_with_ms"] = round(with_bombs, 1)
    return facts


@contextmanager
def service() -> Iterator[str]:
    """Start a reward service without the effects of earlier bombs; yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        for name, verifier in _RUBRICS.items():
            (Path(folder) / f"{name}.yaml").write_text(
                f"name: {name}\ndescription: {verifier}.\ncomponents:\n"
                f"  - {{verifier: {verifier}, weight: 1.0}}\n"
            )
        log = Path(folder) / "log"
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(one for one in sys.path if one),
            "ASSAY_REWARD_RUBRICS": folder,
        }
        command = [sys.executable, "-m", "assay_shared.cli", "reward", "serve", "--port", "0"]
        process = spawn(command, log=log, environment=environment)
        try:
            yield address(log)
        finally:
            end([process], 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--duration-s", type=float, default=5.0)
    parser.add_argument("--bombs", default=",".join(BOMBS))
    parser.add_argument("--whose", default="own,another's")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.bombs.split(","):
        for whose in arguments.whose.split(","):
            with service() as url:
                facts = uvloop.run(
                    measure(url, BOMBS[name], whose, arguments.turns, arguments.duration_s)
                )
            rows.append({"bomb": name, "whose": whose} | facts)
            print(rows[-1], flush=True)
    arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


def address(log: Path) -> str:
    """Return the address in the service's log; wait for it."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        _, found, rest = log.read_text().partition("listening on ")
        if found and "\n" in rest:
            return rest.split('"')[0].split()[0]
        time.sleep(0.05)
    raise SystemExit(f"the service does not start: {log.read_text()[-2000:]}")


if __name__ == "__main__":
    main()
