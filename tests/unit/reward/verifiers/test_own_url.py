"""A reward by a URL: whatever the server does, it is a value or a typed failure, in time."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from assay_reward.group import GroupScore
from assay_reward.instruments import Instruments
from assay_reward.own.instruments import Own
from assay_reward.own.source import Allowed
from assay_reward.pace import Pace
from assay_reward.rubric import Rubrics
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.types import FailureClass, Reward, Scored, ScoreRequest, Unscored
from tests.support.fakes import FakeJudge, FakeSandbox, make_task

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
TIMEOUT_S = 0.7


class Server:
    """A real server to read a request and let `answer` write anything."""

    def __init__(self) -> None:
        self.answer: Answer = reply(b'{"values": [1, 0]}')
        self.heads: list[str] = []
        self.bodies: list[dict[str, object]] = []
        self.url = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length:")[2].split()[0])
            self.heads.append(head)
            self.bodies.append(json.loads(await reader.readexactly(length)))
            await self.answer(head.encode(), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def reply(body: bytes, status: str = "200 OK", *headers: str) -> Answer:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        lines = (f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", "")
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()

    return answer


async def silence(_: bytes, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def endless(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"values": [1, 0], "x": "')
    while True:
        writer.write(b"x" * 2**16)
        await writer.drain()


async def drip(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def long_head(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x: " + b"y" * 4000 + b"\r\n")
        await writer.drain()


async def half(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{"values"')
    await writer.drain()


async def no_http(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"+OK hello\r\n\r\n")
    await writer.drain()


async def nothing(_: bytes, __: asyncio.StreamWriter) -> None:
    return


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/score"
    yield server
    listening.close()


async def score(url: str, folder: Path) -> list[Reward]:
    options = {"timeout_s": TIMEOUT_S, "arguments": {"strict": True}}
    component = {"verifier": {"url": url}, "weight": 1, "options": options}
    (folder / "mine.yaml").write_text(
        json.dumps({"name": "mine", "description": "d", "components": [component]})
    )
    rubric = Rubrics(folder, Allowed(urls=(url,))).find("mine")
    own = Own()
    instruments = Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0), own=own)
    request = ScoreRequest(task=make_task("two", reference="2"), answers=("2", ("3", "4")))
    rewards = (await GroupScore(rubric, request, instruments, Pace()).run()).rewards
    await own.close()
    return list(rewards)


async def test_a_url_gets_task_and_answers_and_gives_values(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "secret")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.answer = reply(b'{"values": [true, {"value": 0.5, "detail": "half"}]}')
    rewards = await score(server.url, tmp_path)
    assert [one.value for one in rewards if isinstance(one, Scored)] == [1.0, 0.5]
    (asked,) = server.bodies
    assert asked["answers"] == ["2", ["3", "4"]]
    assert asked["arguments"] == {"strict": True}
    assert isinstance(asked["task"], dict)
    assert asked["task"]["reference"] == "2"
    assert "authorization" not in server.heads[0].lower()


BOMB = gzip.compress(b" " * 2**26)


@pytest.mark.parametrize(
    ("answer", "message", "retryable"),
    [
        (silence, "no answer within 0.7 s", True),
        (drip, "no answer within 0.7 s", True),
        (endless, "has more than 1048576 bytes", False),
        (long_head, "", True),
        (half, "", True),
        (no_http, "", True),
        (nothing, "Server disconnected", True),
        (reply(b"", "500 Internal Server Error"), "HTTP 500", True),
        (reply(b'{"values": [1, 0]}', "503 Busy"), "HTTP 503", True),
        (reply(b'{"values": [1, 0]}', "429 Slow"), "HTTP 429", True),
        (reply(b'{"values": [1, 0]}', "422 No"), "HTTP 422", False),
        (reply(b'{"values": [1, 0]}', "203 Other"), "HTTP 203", False),
        (reply(BOMB, "200 OK", "content-encoding: gzip"), "compressed", False),
        (reply(b""), "not JSON", False),
        (reply(b"<html>"), "not JSON", False),
        (reply(b"[" * 100_000), "not JSON", False),
        (reply(b"\xff\xfe\xff"), "not JSON", False),
        (reply(b"[1, 0]"), "no list of values", False),
        (reply(b'{"value": [1, 0]}'), "no list of values", False),
        (reply(b'{"values": [1]}'), "gave 1 values for 2 answers", False),
        (reply(b'{"values": [1, 0, 0]}'), "gave more values for 2 answers", False),
        (reply(b'{"values": [0, 0], "values": [1, 1]}'), "the key 'values' twice", False),
        (reply(b'{"values": [{"value": 0, "value": 1}, 0]}'), "the key 'value' twice", False),
        (reply(b'{"values": [NaN, Infinity]}'), "which is not a finite number", False),
        (reply(b'{"values": ["1", [1]]}'), "which is not a value", False),
        (reply(b'{"values": [null, null]}'), "gave no value", False),
        (reply(b'{"values": [7, -7]}'), "outside of 0 to 1", False),
    ],
)
async def test_what_is_no_value_is_a_typed_failure_in_time(
    server: Server, tmp_path: Path, answer: Answer, message: str, retryable: bool
) -> None:
    server.answer = answer
    started = time.monotonic()
    rewards = await score(server.url, tmp_path)
    assert time.monotonic() - started < 5
    for reward in rewards:
        assert isinstance(reward, Unscored)
        assert message in reward.failure.message
        assert reward.failure.retryable == retryable


async def test_a_redirect_is_not_followed(server: Server, tmp_path: Path) -> None:
    elsewhere = Server()
    listening = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    target = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    for status in ("302 Found", "307 Temporary Redirect", "308 Permanent Redirect"):
        server.answer = reply(b'{"values": [1, 0]}', status, f"location: {target}")
        for reward in await score(server.url, tmp_path):
            assert isinstance(reward, Unscored)
            assert "redirects are not followed" in reward.failure.message
    assert elsewhere.heads == []
    listening.close()


async def test_nobody_there_is_told_at_once(tmp_path: Path) -> None:
    started = time.monotonic()
    for reward in await score("http://127.0.0.1:9/score", tmp_path):
        assert isinstance(reward, Unscored)
        assert reward.failure.failure_class is FailureClass.NETWORK
        assert reward.failure.retryable
    assert time.monotonic() - started < 1
