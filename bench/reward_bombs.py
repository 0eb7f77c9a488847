"""How long other answers and /health wait while answers that are made to be slow are scored.

    python bench/reward_bombs.py

A real reward service on loopback. Plain answers, half of them numbers and half formulas, come at a
steady rate, in turns without bombs and with a bomb in every tenth request: from the same client, and
from another one. The latency of the plain answers with bombs is held against that without, turn by
turn. /health is asked all the while.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from assay_shared.processes import end, spawn

OUTPUT = Path(__file__).parent / "results" / "reward_bombs.json"
_RATE_PER_S = 30.0
_EVERY = 10
_HEALTH_EVERY_S = 0.05
_START_TIMEOUT_S = 60.0
_WARM_UP = 40
_RUBRICS = {"pattern": "pattern", "json": "json_schema", "constraints": "constraints", "f1": "f1"}
_TREE = {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["b"]}] * 2}


def nested(depth: int) -> str:
    """JSON that is read twice at each level, and fits nowhere."""
    return '{"a":' * depth + "1" + "}" * depth


def long(unit: str, length: int = 1_000_000) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def instruction(name: str, **kwargs: object) -> dict[str, Any]:
    return {"constraints": {"instruction_id_list": [name], "kwargs": [kwargs]}}


#: By name: the rubric, the task's part, and the bomb's text; `n` makes no two of them equal.
Bomb = tuple[str, dict[str, Any], Callable[[int], str]]
BOMBS: dict[str, Bomb] = {
    "power tower": ("math", {"reference": r"\boxed{2}"}, lambda n: rf"\boxed{{9^{{9^{{9^{n}}}}}}}"),
    "integral": (
        "math",
        {"reference": r"\boxed{x+1}"},
        lambda n: rf"\boxed{{\int_0^{{{n}}} e^{{-x^2}} \sin(x^x) dx}}",
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
    """A number, or a formula that is no other one's."""
    if number % 2:
        return body("math", {"reference": "18"}, f"#### {number}")
    return body(
        "math",
        {"reference": r"\boxed{\frac{x}{2}}"},
        rf"\boxed{{\frac{{{number}x}}{{{number + 1}}}}}",
    )


class Client:
    """One who asks, from an address of its own."""

    def __init__(self, url: str, address: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(local_addr=(address, 0), limit=0),
            headers={"content-type": "application/json"},
        )

    async def score(self, content: bytes) -> tuple[float, dict[str, Any]]:
        """The latency in milliseconds, and the reward."""
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
) -> dict[str, list[float]]:
    """The latencies of a turn: of numbers, of formulas, of /health; and the bombs' rewards."""
    found: dict[str, list[float]] = {"numbers": [], "formulas": [], "health": []}
    rewards: list[asyncio.Task[Any]] = []
    asked: list[tuple[str, asyncio.Task[Any]]] = []
    probing = asyncio.create_task(probe(own, found["health"]))
    began = time.perf_counter()
    for number in range(int(duration_s * _RATE_PER_S)):
        await asyncio.sleep(max(0.0, began + number / _RATE_PER_S - time.perf_counter()))
        at = first + number
        if bomb is not None and number % _EVERY == 0:
            rubric, changes, text = bomb
            rewards.append(asyncio.create_task(other.score(body(rubric, changes, text(at)))))
        else:
            kind = "numbers" if at % 2 else "formulas"
            asked.append((kind, asyncio.create_task(own.score(plain(at)))))
    for kind, task in asked:
        found[kind].append((await task)[0])
    probing.cancel()
    given = [reward for _, reward in await asyncio.gather(*rewards)]
    assert all(one["status"] == "scored" and one["outcome"] == "wrong_answer" for one in given), (
        given
    )
    return found


async def probe(client: Client, found: list[float]) -> None:
    while True:
        found.append(await client.health())
        await asyncio.sleep(_HEALTH_EVERY_S)


def at(share: int, latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[share - 1]


async def measure(url: str, num_turns: int, duration_s: float) -> list[dict[str, Any]]:
    own, other = Client(url, "127.0.0.1"), Client(url, "127.0.0.2")
    rows = []
    for number in range(_WARM_UP):
        await own.score(plain(-2 * number - 3))
    number = 10
    for name, bomb in BOMBS.items():
        for whose, sender in (("own", own), ("another's", other)):
            turns: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}
            for _ in range(num_turns):
                for with_bombs in (False, True):
                    found = await turn(
                        own, sender, bomb if with_bombs else None, number, duration_s
                    )
                    number += int(2 * duration_s * _RATE_PER_S)
                    for kind, latencies in found.items():
                        turns[with_bombs].setdefault(kind, []).extend(latencies)
            rows.append({"bomb": name, "whose": whose} | _facts(turns))
            print(rows[-1], flush=True)
    await own.close()
    await other.close()
    return rows


def _facts(turns: dict[bool, dict[str, list[float]]]) -> dict[str, float]:
    facts = {}
    for kind in ("numbers", "formulas", "health"):
        for share in (50, 99):
            without, with_bombs = (at(share, turns[one][kind]) for one in (False, True))
            facts[f"{kind}_p{share}_without_ms"] = round(without, 1)
            facts[f"{kind}_p{share}_with_ms"] = round(with_bombs, 1)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--duration-s", type=float, default=5.0)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, verifier in _RUBRICS.items():
            (Path(folder) / f"{name}.yaml").write_text(
                f"name: {name}\ndescription: {verifier}.\ncomponents:\n"
                f"  - {{verifier: {verifier}, weight: 1.0}}\n"
            )
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "assay_shared.cli", "reward", "serve", "--port", "0"]
        path = [one for one in sys.path if one]
        process = spawn(
            command,
            log=log,
            environment={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": ":".join(path),
                "ASSAY_REWARD_RUBRICS": folder,
            },
        )
        try:
            url = address(log)
            rows = uvloop.run(measure(url, arguments.turns, arguments.duration_s))
        finally:
            end([process], 10.0)
    arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


def address(log: Path) -> str:
    """Where the service says it listens."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        _, found, rest = log.read_text().partition("listening on ")
        if found and "\n" in rest:
            return rest.split('"')[0].split()[0]
        time.sleep(0.05)
    raise SystemExit(f"the service does not start: {log.read_text()[-2000:]}")


if __name__ == "__main__":
    main()
