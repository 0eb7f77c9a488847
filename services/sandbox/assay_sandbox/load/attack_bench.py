"""Measures a client's latencies during another's attacks: /health and `print(1)` per attack.

The attacker and the measuring client are separate processes, so neither slows down the other. They
have different tokens, so the service treats them as different clients.
"""

import asyncio
import json
import multiprocessing
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import aiohttp

from assay_sandbox.load.attacks import ATTACKS, AttackClient
from assay_sandbox.load.load import (
    WORKLOADS,
    Format,
    LoadOutcome,
    LoadProgram,
    ask,
    open_session,
    percentile,
)
from assay_sandbox.load.own_service import own_service, service_folders, wait_until_ready
from assay_shared.errors import SandboxFault
from assay_shared.runtime.processes import raise_descriptor_limit
from assay_shared.settings.environment import ServiceSettings

IDLE = "nobody attacks"
_SHARES = (50, 99, 100)
_HEALTH_EVERY_S = 0.01
_PRINT_EVERY_S = 0.05
_MAX_UNANSWERED = 2000
#: A request without an answer by then counts as not right.
_GIVEN_UP_AFTER_S = 20.0
_WARM_UP_S = 1.0
_SETTLE_S = 3.0
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Felt:
    """Latencies of right answers in milliseconds, and the number of other answers."""

    latencies_ms: list[float] = field(default_factory=list)
    num_not_right: int = 0

    def facts(self) -> dict[str, float | None]:
        """Return the percentiles and the numbers, for JSON."""
        names = {50: "p50_ms", 99: "p99_ms", 100: "max_ms"}
        shares = {names[share]: percentile(self.latencies_ms, share) for share in _SHARES}
        return shares | {"right": len(self.latencies_ms), "not_right": self.num_not_right}


@dataclass
class UnderAttack:
    """The measurements of another client during an attack."""

    attack: str
    #: Requests sent by the attacker until the end of the measurement.
    num_requests: int = 0
    health: Felt = field(default_factory=Felt)
    program: Felt = field(default_factory=Felt)

    def facts(self) -> dict[str, object]:
        """Return all figures, for JSON."""
        return {
            "attack": self.attack,
            "requests": self.num_requests,
            "health": self.health.facts(),
            "print(1)": self.program.facts(),
        }


async def bench_attacks(
    names: Sequence[str],
    duration_s: float,
    settings: ServiceSettings,
    on_attack: Callable[[UnderAttack], None] = lambda seen: None,
) -> tuple[str, list[UnderAttack]]:
    """Start a service, measure it idle and under each attack; return its isolation and figures.

    Raises:
        SandboxFault: the service does not start, or an attacker ends before its first request.
    """
    tokens = {name: secrets.token_hex(16) for name in ("attacker", "user")}
    environment = {"ASSAY_CLIENT_TOKENS": json.dumps(tokens)}
    found = []
    with service_folders() as (folder, temporary):
        async with own_service(folder / "log", temporary, environment) as (url, _):
            async with open_session(settings) as session:
                isolation = await wait_until_ready(session, url, folder / "log")
            with ProcessPoolExecutor(1, mp_context=_SPAWN) as pool:
                for name in (IDLE, *names):
                    seen = await _measure(pool, url, name, tokens, duration_s)
                    found.append(seen)
                    on_attack(seen)
    return isolation, found


async def _measure(
    pool: ProcessPoolExecutor, url: str, name: str, tokens: dict[str, str], duration_s: float
) -> UnderAttack:
    attacker, num_requests = None, _SPAWN.Value("L", 0)
    if name != IDLE:
        arguments = (name, url, tokens["attacker"], num_requests)
        attacker = _SPAWN.Process(target=run_attack, args=arguments)
        attacker.start()
        await _until_begun(attacker, num_requests)
    loop = asyncio.get_running_loop()
    try:
        seen = await loop.run_in_executor(pool, feel, url, tokens["user"], duration_s)
    finally:
        if attacker is not None:
            await asyncio.to_thread(_end, attacker)
            await asyncio.sleep(_SETTLE_S)
    seen.attack, seen.num_requests = name, num_requests.value
    return seen


async def _until_begun(attacker: BaseProcess, num_requests: "Synchronized[int]") -> None:
    while not num_requests.value:
        if attacker.exitcode is not None:
            raise SandboxFault("the attacker ended before its first request")
        await asyncio.sleep(0.05)
    await asyncio.sleep(_WARM_UP_S)


def _end(process: BaseProcess) -> None:
    process.kill()
    process.join()


def run_attack(name: str, url: str, token: str, num_requests: "Synchronized[int]") -> None:
    """Attack until this process is killed; call it in a separate process."""

    def count() -> None:
        num_requests.value += 1  # this process alone counts

    async def attack() -> None:
        async with _session(token) as session:
            await ATTACKS[name](AttackClient(session, url, token, count))

    raise_descriptor_limit()
    asyncio.run(attack())


def feel(url: str, token: str, duration_s: float) -> UnderAttack:
    """Request /health and run print(1) at fixed times; return the figures.

    Call it in a separate process.
    """
    seen = UnderAttack("")
    asyncio.run(_feel(url, token, duration_s, seen))
    return seen


def _session(token: str) -> aiohttp.ClientSession:
    return open_session(ServiceSettings.model_validate({"sandbox_token": token}))


async def _feel(url: str, token: str, duration_s: float, seen: UnderAttack) -> None:
    workload = WORKLOADS[Format.ASSAY, LoadProgram.PRINT]
    body = json.dumps(workload.body).encode()
    async with _session(token) as session:

        async def look() -> bool:
            async with (
                asyncio.timeout(_GIVEN_UP_AFTER_S),
                session.get(f"{url}/health") as response,
            ):
                return response.status == 200 and bool(await response.read())

        async def run() -> bool:
            async with asyncio.timeout(_GIVEN_UP_AFTER_S):
                answer = await ask(session, url + workload.path, body, workload)
            return answer.outcome is LoadOutcome.RIGHT

        await asyncio.gather(
            _at_fixed_times(look, _HEALTH_EVERY_S, duration_s, seen.health),
            _at_fixed_times(run, _PRINT_EVERY_S, duration_s, seen.program),
        )


async def _at_fixed_times(
    ask_once: Callable[[], Awaitable[bool]],
    every_s: float,
    duration_s: float,
    felt: Felt,
) -> None:
    """Send a request every `every_s`, without waiting for earlier answers; then await all answers.

    A latency counts from the time a request was due. So the latencies show a hang of the service
    as all clients asking meanwhile would feel it.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()

    async def timed(due: float) -> None:
        try:
            is_right = await ask_once()
        except (aiohttp.ClientError, TimeoutError):
            is_right = False
        if is_right:
            felt.latencies_ms.append(1000 * (loop.time() - due))
        else:
            felt.num_not_right += 1

    tasks: set[asyncio.Task[None]] = set()
    number = 0
    while (due := started + number * every_s) < started + duration_s:
        await asyncio.sleep(max(0.0, due - loop.time()))
        if len(tasks) < _MAX_UNANSWERED:
            task = loop.create_task(timed(due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        else:
            felt.num_not_right += 1
        number += 1
    await asyncio.gather(*tasks)


HEADINGS = ["attack", "requests", "/health", "lost", "print(1)", "lost"]
#: Of a table with these headings.
UNITS = "Latencies in milliseconds: p50, p99, maximum. Lost: requests without the right answer."


def rows(found: Iterable[UnderAttack]) -> Iterator[list[str]]:
    """Yield a table's rows, a row for each attack."""
    for seen in found:
        yield [seen.attack, str(seen.num_requests), *_cells(seen.health), *_cells(seen.program)]


def _cells(felt: Felt) -> list[str]:
    values = [percentile(felt.latencies_ms, share) for share in _SHARES]
    shown = ", ".join(
        "-" if value is None else f"{value:.1f}" if value < 10 else f"{value:.0f}"
        for value in values
    )
    return [shown, str(felt.num_not_right)]


def draw(found: Sequence[UnderAttack], title: str, path: Path) -> None:
    """Draw the p99 of /health and print(1) under each attack into the file `path`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(9, 0.6 + 0.32 * len(found)))
    places = range(len(found))
    for shift, colour, label, felt in (
        (-0.18, "#2563eb", "/health", [seen.health for seen in found]),
        (0.18, "#93c5fd", "print(1)", [seen.program for seen in found]),
    ):
        values = [percentile(one.latencies_ms, 99) or float("nan") for one in felt]
        ax.barh([place + shift for place in places], values, 0.36, color=colour, label=label)
    ax.set_yticks(places, [seen.attack for seen in found])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("p99 of another client, ms")
    ax.grid(axis="x", alpha=0.25)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(title, loc="left")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
