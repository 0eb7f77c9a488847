"""Bodies for a cheap refusal, for every route of an OpenAPI document."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from assay_shared.runtime.processes import end, spawn

_ANONYMOUS = re.compile(r"^Pss_Anon: +(\d+) kB", re.MULTILINE)
NAMES = ("inference", "sandbox", "judge", "reward", "trainer")
#: Further processes of a service; those of programs under test do not belong to it.
_HELPERS = ("assay_shared.service.bodies.body_worker", "assay_shared.runtime.worker_process")


class Running(NamedTuple):
    """A service in a separate process."""

    url: str
    pid: int


@contextmanager
def running_services(folder: Path, model: Path) -> Iterator[dict[str, Running]]:
    """All five, with their logs and runs in `folder`; killed at the end."""
    own = {
        "ASSAY_SANDBOX_MINIMUM_ISOLATION": "fallback",
        "ASSAY_SANDBOX_SLOTS": "1",
        "ASSAY_RUNS": str(folder / "runs"),
        "ASSAY_INFERENCE_MODEL": str(model),
        "ASSAY_INFERENCE_DEVICE": "cpu",
    }
    processes = {
        name: spawn(
            [sys.executable, "-m", "assay_shared.cli", name, "serve", "--port", "0"],
            log=folder / f"{name}.log",
            environment={**os.environ, **own},
        )
        for name in NAMES
    }
    try:
        yield {
            name: Running(_url_in(folder / f"{name}.log", process), process.pid)
            for name, process in processes.items()
        }
    finally:
        end(list(processes.values()), grace_s=5)


def _url_in(log: Path, process: "subprocess.Popen[bytes]") -> str:
    """Wait until a service logs its address, and answers there."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        for line in log.read_text().splitlines():
            url = line.partition("listening on ")[2].partition('"')[0]
            if url:
                with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=60):
                    return url
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


class Route(NamedTuple):
    """A route with a JSON body."""

    method: str
    path: str
    fields: tuple[str, ...]
    limit_bytes: int


class Answer(NamedTuple):
    """The outcome of a request; `status` is 0 if the connection closed without a word."""

    status: int
    body: bytes


def routes_of(document: dict[str, Any], limit_bytes: int) -> Iterator[Route]:
    """Return each route with a body of an OpenAPI document; `limit_bytes` if it names none."""
    schemas = document.get("components", {}).get("schemas", {})
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            if method != "post":
                continue
            content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
            named = json.dumps(content).partition("#/components/schemas/")[2].partition('"')[0]
            fields = schemas.get(named, {}).get("properties", {})
            limit = min(limit_bytes, route.get("x-body-limit-bytes", limit_bytes))
            filled = path.replace("{name}", "x").replace("{session}", "x")
            yield Route(method.upper(), filled, tuple(fields) or ("x",), limit)


def hostile_bodies(route: Route, num_bytes: int) -> dict[str, Callable[[], bytes]]:
    """Return makers of bodies of at most this number of bytes, by kind."""
    size = min(num_bytes, route.limit_bytes) - 100
    share = max(1, size // len(route.fields) - 40)
    kinds: dict[str, Callable[[], bytes]] = {
        f"lists of {item.decode()}": partial(_each, route, share, item)
        for item in (b"0", b"1.5", b'"x"', b"{}", b"[]", b"null")
    }
    for name in route.fields:
        kinds[f"a list of 1.5 as {name}"] = partial(_list_in, name, size - 60)
    digits = b"9" * min(share, 100_000)
    values = {
        "lists in lists": b"[" * (share // 2) + b"]" * (share // 2),
        "lists in lists, 300 deep": b"[" * 300 + b"]" * 300,
        "half characters": b'"a\\ud800b"',
        "the character NUL": b'"a\\u0000b"',
        "NaN": b"NaN",
        "an infinity": b"-Infinity",
        "1e999": b"1e999",
        "a number of many digits": digits,
    }
    for what, value in values.items():
        kinds[what] = partial(_fill, route, value)
    return kinds | {
        "long texts": lambda: _fill(route, b'"' + b"word " * (share // 5) + b'"'),
        "texts of escapes": lambda: _fill(route, b'"' + b"\\n" * (share // 2 - 2) + b'"'),
        "a list at the top": lambda: _repeated(b"0", size),
        "unknown keys": lambda: _unknown_keys(size),
        "objects in objects": lambda: b'{"a":' * (size // 6) + b"0" + b"}" * (size // 6),
        "keys with half characters": lambda: b'{"\\udfff":0}',
        "a text without an end": lambda: b'"' * size,
        "bytes that are not UTF-8": lambda: b'{"a":"\xff\xfe"}',
        "nothing": lambda: b"",
    }


def _fill(route: Route, value: bytes) -> bytes:
    return b"{" + b",".join(b'"%b":%b' % (name.encode(), value) for name in route.fields) + b"}"


def _repeated(item: bytes, size: int) -> bytes:
    return b"[" + (item + b",") * (size // (len(item) + 1)) + item + b"]"


def _each(route: Route, share: int, item: bytes) -> bytes:
    return _fill(route, _repeated(item, share))


def _list_in(name: str, size: int) -> bytes:
    return b'{"%b":%b}' % (name.encode(), _repeated(b"1.5", size))


def _unknown_keys(size: int) -> bytes:
    keys = b",".join(b'"k%x":0' % number for number in range(size // 10))
    return b"{" + keys[: size - 10].rpartition(b",")[0] + b"}"


def post(url: str, route: Route, body: bytes, timeout_s: float = 120) -> Answer:
    """Send a body."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=timeout_s)
    try:
        connection.request(
            route.method, route.path, body=body, headers={"content-type": "application/json"}
        )
        response = connection.getresponse()
        return Answer(response.status, response.read())
    except (ConnectionError, http.client.HTTPException):
        return Answer(0, b"")
    finally:
        connection.close()


@dataclass
class Watch:
    """Asks for /health all the time, and reads the memory of a service's processes."""

    url: str
    pid: int
    latencies_s: list[float] = field(default_factory=list)
    most_bytes: int = 0

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._ask, self._look)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def begin(self) -> int:
        """Forget earlier readings; return the memory now, in bytes."""
        self.latencies_s = []
        self.most_bytes = own_bytes(self.pid)
        return self.most_bytes

    def _ask(self) -> None:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        while not self._ended.wait(0.005):
            started = time.monotonic()
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            self.latencies_s.append(time.monotonic() - started)
        connection.close()

    def _look(self) -> None:
        while not self._ended.wait(0.05):
            self.most_bytes = max(self.most_bytes, own_bytes(self.pid))


def own_bytes(pid: int) -> int:
    """Return the memory not shared with files, of a service and the helpers below it."""
    return sum(_own_bytes(one) for one in (pid, *_helpers_below(pid)))


def _own_bytes(pid: int) -> int:
    """Memory shared by forked processes is divided among them."""
    try:
        found = _ANONYMOUS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return 0
    return int(found.group(1)) * 1024 if found else 0


def _helpers_below(pid: int) -> Iterator[int]:
    try:
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, file.read_text().split()):
                command = Path(f"/proc/{child}/cmdline").read_text()
                if any(name in command for name in _HELPERS):
                    yield child
                    yield from _helpers_below(child)
    except OSError:
        return


def quantile(values: list[float], share: float) -> float:
    """Return the value above this share of all."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
