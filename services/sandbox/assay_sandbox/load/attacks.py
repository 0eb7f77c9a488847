"""Attacks of a client on a sandbox shared with other clients, each a stream of requests.

An attack has its own process and client, and lasts until the process is killed.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

_MANY = 16
_NUM_IDLE = 1000
#: Finds the descriptor of the record channel by trial, and writes to it without end.
_FLOOD = """\
import os
line = {line!r}
for fd in range(3, 64):
    try: os.write(fd, line); record = fd; break
    except OSError: pass
while True: os.write(record, line * {times})
"""
_COLLIDING_SET = "def f(x):\n    return set(i * (2**61 - 1) for i in range(1, 16000))"
_CHILD_FLOODS = """\
import os, time
if os.fork() == 0:
    end = time.time() + 5
    for fd in range(3, 64):
        try: os.write(fd, b'\\n')
        except OSError: continue
        while time.time() < end:
            try: os.write(fd, b'\\n' * 65536)
            except OSError: break
    os._exit(0)
"""


@dataclass(frozen=True)
class AttackClient:
    """The attacker: its session, its token and the service's address.

    `on_request` is called before each request.
    """

    session: aiohttp.ClientSession
    url: str
    token: str
    on_request: Callable[[], None]

    async def post(self, path: str, body: object) -> None:
        """Post a body as JSON, or unchanged if it is bytes; ignore the answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.on_request()
        try:
            async with self.session.post(self.url + path, data=data) as response:
                await response.read()
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(0.1)

    def head(self, path: str, num_bytes: int) -> bytes:
        """Return the head of a request with `num_bytes` as the announced length of its body."""
        lines = (
            f"POST {path} HTTP/1.1",
            "host: sandbox",
            "content-type: application/json",
            f"authorization: Bearer {self.token}",
            f"content-length: {num_bytes}",
        )
        return "\r\n".join([*lines, "", ""]).encode()


Attack = Callable[[AttackClient], Awaitable[None]]


def _again(path: str, body: object, at_once: int = _MANY) -> Attack:
    """Return an attack to post the same body without pause, `at_once` at a time."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def post_on(client: AttackClient) -> None:
        while True:
            await client.post(path, data)

    async def attack(client: AttackClient) -> None:
        await asyncio.gather(*(post_on(client) for _ in range(at_once)))

    return attack


def _program(code: str, at_once: int = _MANY, **limits: float) -> Attack:
    return _again("/v1/execute", {"code": code, "limits": {"wall_time_s": 2.0} | limits}, at_once)


def _call(code: str, case: dict[str, Any]) -> Attack:
    return _again("/v1/test", {"code": code, "cases": [case], "limits": {"wall_time_s": 2.0}})


_CALL_F = {"kind": "call", "function": "f", "args": [1], "expected": 1}


async def _cells(client: AttackClient) -> None:
    """Run cells that end at once and leave a flooding child."""

    async def one() -> None:
        async with client.session.post(client.url + "/v1/sessions", data=b"{}") as response:
            path = f"/v1/sessions/{(await response.json()).get('id', '')}/execute"
        while True:
            await client.post(path, {"code": _CHILD_FLOODS})
            await asyncio.sleep(1.0)

    await asyncio.gather(*(one() for _ in range(4)))


def _held_open(sent: Callable[[AttackClient], bytes], number: int = _NUM_IDLE) -> Attack:
    """Return an attack to open connections, send the start of a request on each, and wait."""

    async def one(client: AttackClient, address: tuple[str, int]) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(*address, family=socket.AF_INET)
                client.on_request()
                writer.write(sent(client))
                await reader.read()  # until the service closes it
                writer.close()
            except OSError:
                pass
            await asyncio.sleep(1.0)

    async def attack(client: AttackClient) -> None:
        parts = urlsplit(client.url)
        address = (parts.hostname or "", parts.port or 80)
        await asyncio.gather(*(one(client, address) for _ in range(number)))

    return attack


def _body(code: str, **more: object) -> dict[str, object]:
    return {"code": code} | more


ATTACKS: dict[str, Attack] = {
    "record flood, short lines": _program(_FLOOD.format(line=b"\n", times=65536)),
    "record flood, restarted clocks": _program(_FLOOD.format(line=b"start 0\n", times=8192)),
    "record flood, values": _call(_FLOOD.format(line=b"value 0 1\n", times=6553), _CALL_F),
    "colliding set returned": _call(_COLLIDING_SET, _CALL_F),
    "huge format": _call(
        "def f(x):\n    return '%600000000d'", {"kind": "assert", "code": "assert f(10) % 2 == 0"}
    ),
    "huge expected value": _call(
        "def f():\n    return 1", {"kind": "assert", "code": "assert f() == [0] * 100000000"}
    ),
    "long values returned": _call("def f(x):\n    return list(range(10**6))", _CALL_F),
    "cells with flooding children": _cells,
    "sleepers": _program("import time; time.sleep(9)", at_once=64),
    "busy loops": _program("while True: pass", at_once=64, cpu_time_s=1.0),
    "fork bombs": _program("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
    "output floods": _program(
        "import os\nwhile True: os.write(1, b'x' * 65536)", output_bytes=64 * 2**20
    ),
    "large answers": _program(
        "import os\nfor _ in range(100): os.write(1, b'x' * 65536)", 4, output_bytes=2**23
    ),
    "memory": _program("kept = []\nwhile True: kept.append(bytearray(2**24))"),
    "1 MiB bodies": _again("/v1/execute", _body("print(1)", stdin="x" * 2**20), 4),
    "16 MiB bodies": _again("/v1/execute", _body("print(1)", stdin="x" * 2**24), 2),
    "long lists of wrong items": _again("/v1/test", _body("", cases=[{"kind": "x"}] * 100_000), 4),
    "deep nesting": _again("/v1/execute", b'{"code":' + b"[" * 2**20, 4),
    "long lists of arguments": _call(
        "def f(x):\n    return 1", _CALL_F | {"args": [list(range(200_000))]}
    ),
    "small wrong requests": _again("/v1/execute", {"code": 1}, 32),
    "idle connections": _held_open(lambda client: b""),
    "half-sent heads": _held_open(lambda client: b"POST /v1/execute HTTP/1.1\r\nx-a: "),
    "half-sent bodies": _held_open(lambda client: client.head("/v1/execute", 10_000) + b"{"),
}
