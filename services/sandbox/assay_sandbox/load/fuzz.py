"""A fuzzer: hostile programs against one sandbox, with innocent ones between them.

The verdict on a hostile program may be anything but a failure of the sandbox or a right answer. An
innocent program must always get its known verdict.
"""

import asyncio
import json
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from assay_sandbox.load.footprint import Footprint, Growth, MemorySample, growth
from assay_sandbox.load.fuzz_programs import Attack, attack
from assay_sandbox.load.load import open_session
from assay_sandbox.load.own_service import (
    num_rebuilds,
    own_service,
    service_folders,
    wait_until_ready,
)
from assay_sandbox.load.soak_programs import INNOCENT, Known
from assay_shared.settings.environment import ServiceSettings

#: Without an answer for this long, the service hangs. All cases of a program take a few seconds.
_HUNG_AFTER_S = 30.0
_INNOCENT_EVERY = 5
_LOOK_EVERY = 50
#: After this many programs, wait for all to end and sample the service's footprint.
_REST_EVERY = 100
_PATIENCE_S = 5.0
_MAX_SAID = 2000
_MAX_KEPT_OF_A_KIND = 5
_MAX_SHRINK_RUNS = 40
_NUM_RECENT = 12
#: Fewer samples of the footprint than this only show the service's warm-up, not a leak.
_MIN_SAMPLES = 20


@dataclass(frozen=True)
class FuzzFailure:
    """A failure of the service, with its request.

    `recent` has the numbers of the last hostile programs before it: any of them may be to blame.
    """

    kind: str
    seed: int
    number: int
    said: str
    path: str
    request: dict[str, Any]
    recent: tuple[int, ...] = ()


@dataclass
class Fuzz:
    """The result of a fuzz run. `verdicts` counts the hostile programs by verdict."""

    seed: int
    isolation: str = ""
    took_s: float = 0.0
    num_programs: int = 0
    num_innocent: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    #: The number of failures of each kind, and the first of each kind in full.
    failures: Counter[str] = field(default_factory=Counter)
    kept: list[FuzzFailure] = field(default_factory=list)
    rebuilds: int = 0
    left: list[str] = field(default_factory=list)
    #: SIGINT or SIGTERM ended the run before all programs had run.
    is_stopped: bool = False
    #: The service's footprint after each hundred programs; empty for a service given by its URL.
    samples: list[MemorySample] = field(default_factory=list)

    @property
    def growth(self) -> dict[str, Growth]:
        """The service's footprint early and late; empty if the run is too short to tell."""
        return growth(self.samples) if len(self.samples) >= _MIN_SAMPLES else {}

    @property
    def is_sound(self) -> bool:
        grew = any(one.is_too_much for one in self.growth.values())
        return not (self.failures or self.left or grew)

    def add(self, failure: FuzzFailure) -> bool:
        """Count a failure; return True if it was kept."""
        self.failures[failure.kind] += 1
        if self.failures[failure.kind] > _MAX_KEPT_OF_A_KIND:
            return False
        self.kept.append(failure)
        return True

    def facts(self) -> dict[str, object]:
        """Return everything but the requests, for JSON."""
        known = asdict(self) | {"verdicts": dict(self.verdicts), "failures": dict(self.failures)}
        del known["kept"], known["samples"]
        known["growth"] = {name: asdict(one) for name, one in self.growth.items()}
        return known | {"per_s": self.num_programs / max(self.took_s, 1e-9)}


@dataclass(frozen=True)
class FuzzReply:
    """The service's reply to a request. `failure` is the kind of failure, or "" for none."""

    verdict: str
    failure: str = ""
    text: str = ""


class Fuzzer:
    """Sends hostile and innocent requests to a service, and checks the replies."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        seen: Fuzz,
        footprint: Footprint | None = None,
    ) -> None:
        self._session = session
        self._footprint = footprint
        self._url = url.rstrip("/")
        self.seen = seen
        self._recent: deque[int] = deque(maxlen=_NUM_RECENT)

    async def run_all(
        self, first: int, num_programs: int, concurrency: int, on_progress: Callable[[], None]
    ) -> None:
        """Send the hostile programs, with an innocent program after every few of them."""
        end = first + num_programs
        for start in range(first, end, _REST_EVERY):
            if self.seen.is_stopped:
                break
            numbers = range(start, min(start + _REST_EVERY, end))
            await self._run_some(numbers, concurrency, on_progress)
            await self._sample()
        await self._look()
        for known in INNOCENT * 3:
            await self._ask_innocent(known, end)

    async def _run_some(
        self, chosen: Iterable[int], concurrency: int, on_progress: Callable[[], None]
    ) -> None:
        numbers = iter(chosen)

        async def work() -> None:
            for number in numbers:
                if self.seen.is_stopped:
                    return
                await self._attack(attack(self.seen.seed, number))
                if number % _INNOCENT_EVERY == 0:
                    await self._ask_innocent(INNOCENT[number // 5 % len(INNOCENT)], number)
                if number % _LOOK_EVERY == 0:
                    await self._look()
                on_progress()

        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())

    async def _sample(self) -> None:
        """Sample the service's footprint. No program runs now."""
        if self._footprint is not None:
            self.seen.samples.append(await asyncio.to_thread(self._footprint.sample))

    async def _look(self) -> None:
        try:
            self.seen.rebuilds = await num_rebuilds(self._session, self._url)
        except (aiohttp.ClientError, TimeoutError):
            self.seen.failures["no metrics"] += 1

    async def _attack(self, one: Attack) -> None:
        self._recent.append(one.number)
        said = await self.judge(one)
        self.seen.num_programs += 1
        self.seen.verdicts[said.verdict] += 1
        if said.failure:
            failure = FuzzFailure(
                said.failure,
                self.seen.seed,
                one.number,
                said.text,
                one.path,
                one.body,
                tuple(self._recent),
            )
            self.seen.add(failure)

    async def judge(self, one: Attack) -> FuzzReply:
        """Send a hostile request and return the reply."""
        if one.path == "/v1/sessions":
            return await self._judge_session(one.body)
        status, text = await self._post(one.path, one.body)
        return _read(status, text, may_be_gone=False)

    async def _judge_session(self, body: dict[str, Any]) -> FuzzReply:
        status, text = await self._post("/v1/sessions", {"limits": body["limits"]})
        if status != 201:
            return _read(status, text, may_be_gone=False)
        path = f"/v1/sessions/{json.loads(text)['id']}"
        said = FuzzReply("session")
        for code in body["cells"]:
            status, text = await self._post(f"{path}/execute", {"code": code})
            said = _read(status, text, may_be_gone=True)
            if said.failure:
                break
        try:
            await self._session.delete(self._url + path)
        except (aiohttp.ClientError, TimeoutError) as error:
            return FuzzReply("no answer", "no answer", f"{type(error).__name__}: {error}")
        return said

    async def _post(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        """Return status and body; status 0 if there is no answer."""
        data = json.dumps(body).encode()
        try:
            async with (
                asyncio.timeout(_HUNG_AFTER_S),
                self._session.post(self._url + path, data=data) as response,
            ):
                return response.status, await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return 0, f"{type(error).__name__}: {error}"

    async def _ask_innocent(self, known: Known, number: int) -> None:
        self.seen.num_innocent += 1
        status, text = await self._post(known.workload.path, known.workload.body)
        try:
            is_right = status == 200 and known.workload.is_right(json.loads(text))
        except (ValueError, KeyError, TypeError):
            is_right = False
        if is_right:
            return
        kind = f"innocent: {known.name}"
        workload = known.workload
        failure = FuzzFailure(
            kind,
            self.seen.seed,
            number,
            f"{status} {text[:_MAX_SAID]}",
            workload.path,
            workload.body,
            tuple(self._recent),
        )
        self.seen.add(failure)

    async def shrink(self, failure: FuzzFailure) -> FuzzFailure:
        """Leave out pieces of a failed request while it still fails in the same way; return it."""
        one, num_runs, index = attack(failure.seed, failure.number), 0, 0
        while index < len(one.pieces) > 1 and num_runs < _MAX_SHRINK_RUNS:
            smaller = one.without(index)
            said = await self.judge(smaller)
            num_runs += 1
            if said.failure == failure.kind:
                one, failure = (
                    smaller,
                    FuzzFailure(
                        **vars(failure) | {"request": smaller.body, "said": said.text, "recent": ()}
                    ),
                )
            else:
                index += 1
        return failure


def _read(status: int, text: str, *, may_be_gone: bool) -> FuzzReply:
    if status == 0:
        return FuzzReply("no answer", "no answer", text)
    if status == 404 and may_be_gone:
        return FuzzReply("session gone")
    if status != 200:
        return FuzzReply(f"HTTP {status}", f"HTTP {status} {_error_of(text)}", text[:_MAX_SAID])
    answer = json.loads(text)
    verdict = str(answer["status"])
    reported = [verdict, *(case["status"] for case in answer.get("cases", ()))]
    if "sandbox_error" in reported:
        return FuzzReply(verdict, "sandbox_error", text[:_MAX_SAID])
    if "cases" in answer and "accepted" in reported and answer["grading"] == "outside":
        return FuzzReply("forged", "a secret answer was accepted", text[:_MAX_SAID])
    return FuzzReply(verdict)


def _error_of(text: str) -> str:
    """Return the type of the error in an answer, so that failures of one cause count together."""
    try:
        error = json.loads(text)["error"]
        return str(error.get("code") or error.get("type") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


async def fuzz(
    num_programs: int,
    seed: int,
    concurrency: int,
    settings: ServiceSettings,
    *,
    url: str | None = None,
    first: int = 0,
    on_progress: Callable[[Fuzz], None] = lambda seen: None,
) -> Fuzz:
    """Attack the service at `url`, or else a new service, and return the result.

    SIGINT and SIGTERM end it early: no more programs are sent, and the running ones are awaited.

    Raises:
        SandboxFault: the service does not answer.
    """
    seen = Fuzz(seed)

    async def drive(url: str, log: Path | None, footprint: Footprint | None) -> None:
        async with open_session(settings) as session:
            seen.isolation = await wait_until_ready(session, url, log)
            fuzzer = Fuzzer(session, url, seen, footprint)
            await _drive(fuzzer, first, num_programs, concurrency, on_progress)

    with _stopped_by_signals(seen):
        if url is not None:
            await drive(url, None, None)
            return seen
        with service_folders() as (folder, temporary):
            async with own_service(folder / "log", temporary) as (url, footprint):
                await drive(url, folder / "log", footprint)
            seen.left = footprint.left(_PATIENCE_S)
    return seen


@contextmanager
def _stopped_by_signals(seen: Fuzz) -> Iterator[None]:
    """Set `seen.is_stopped` on a signal.

    SIGINT needs a handler too: a shell starts background commands with SIGINT ignored.
    """
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, setattr, seen, "is_stopped", True)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _drive(
    fuzzer: Fuzzer,
    first: int,
    num_programs: int,
    concurrency: int,
    on_progress: Callable[[Fuzz], None],
) -> None:
    seen, started = fuzzer.seen, time.monotonic()
    await fuzzer.run_all(first, num_programs, concurrency, lambda: on_progress(seen))
    seen.took_s = time.monotonic() - started
    if not seen.is_stopped:
        seen.kept = [
            one if one.kind.startswith("innocent") else await fuzzer.shrink(one)
            for one in seen.kept
        ]


HEADINGS = ["hostile programs judged", "times"]


def rows(seen: Fuzz) -> Iterator[list[str]]:
    """Yield a table's rows: verdicts and counts, then growth and failures."""
    for verdict, times in seen.verdicts.most_common():
        yield [verdict, str(times)]
    yield ["innocent programs", str(seen.num_innocent)]
    yield ["slots rebuilt", str(seen.rebuilds)]
    for name, one in seen.growth.items():
        word = "GREW: " if one.is_too_much else ""
        yield [f"{word}{name}, early and late", f"{one.early:.0f} {one.late:.0f}"]
    for kind, times in seen.failures.most_common():
        yield [f"FAILED: {kind}", str(times)]


def save(seen: Fuzz, folder: Path) -> list[Path]:
    """Write each kept failure to its own file in `folder`; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for index, failure in enumerate(seen.kept):
        path = folder / f"{index:03}.json"
        path.write_text(json.dumps(asdict(failure), indent=1))
        paths.append(path)
    return paths
