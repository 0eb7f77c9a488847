"""Large bodies and answers: whole, and never in a long step."""

import asyncio
import base64
import json
import random

import pytest
from pydantic import JsonValue
from starlette.types import Message

from assay_shared.service.bodies.answer import send_json
from assay_shared.service.bodies.body import BodyProblem, UnreadableBody
from assay_shared.service.bodies.large_bodies import LargeBodies
from assay_shared.service.bodies.parts import Cutter, Joiner
from assay_shared.types import CallCase, ExecutionRequest, ExecutionResult, Status, TestRequest


def some_value(draw: random.Random, depth: int) -> JsonValue:
    kind = draw.randrange(6 if depth else 4)
    if kind == 4:
        return [some_value(draw, depth - 1) for _ in range(draw.choice([0, 3, 60]))]
    if kind == 5:
        return {str(n): some_value(draw, depth - 1) for n in range(draw.choice([0, 2, 40]))}
    text = "text" * draw.choice([0, 9, 999_999])
    plain: list[JsonValue] = [draw.random(), text, None, list(range(30_000))]
    return plain[kind]


@pytest.mark.parametrize("seed", range(5))
def test_a_value_is_the_same_after_it_was_cut(seed: int) -> None:
    value = some_value(random.Random(seed), 3)
    case = CallCase(function="f", args=(value, [1, [value]]), expected={"a": value})
    request = TestRequest(code="x", cases=(case, case))
    joiner = Joiner()
    parts = list(Cutter().cut(request))
    for part in parts:
        joiner.add(part)
    assert joiner.value() == request
    assert joiner.value().model_fields_set == request.model_fields_set


def test_no_part_of_a_long_list_is_long() -> None:
    parts = list(Cutter().cut({"numbers": [list(range(100_000))], "texts": ["text"] * 100_000}))
    assert len(parts) > 20
    assert max(len(content) for _, content in parts if isinstance(content, list)) <= 10_000


async def test_a_body_is_read_in_another_process() -> None:
    bodies = LargeBodies()
    content = bytes(range(256)) * 1000
    body = ExecutionRequest(code="x" * 99_999, files={"a": content}).model_dump_json().encode()
    chunks = [body[:1000], b"", body[1000:]]
    read = await asyncio.gather(*(bodies.read(ExecutionRequest, chunks) for _ in range(3)))
    wrong = await bodies.read(ExecutionRequest, [b'{"code": 1, "a": 2}'])
    with pytest.raises(UnreadableBody):
        await bodies.read(ExecutionRequest, [b"[" * 100_000])
    await bodies.close()
    assert [isinstance(one, ExecutionRequest) and one.files["a"] for one in read] == [content] * 3
    assert isinstance(wrong, BodyProblem)
    assert (wrong.error["loc"], wrong.num_errors) == (("body", "code"), 2)


async def test_after_a_client_that_went_the_next_body_is_read() -> None:
    bodies = LargeBodies()
    body = b'{"code":"","stdin":"%s"}' % (b"x" * 2**20)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await bodies.read(ExecutionRequest, [body])
    read = await bodies.read(ExecutionRequest, [body])
    await bodies.close()
    assert isinstance(read, ExecutionRequest)
    assert len(read.stdin) == 2**20


@pytest.mark.parametrize("size", [0, 10, 200_000, 1_000_000])
async def test_an_answer_is_the_same_in_pieces(size: int) -> None:
    text = ('a"\\\n\u00e4\U0001f600\x00' * (size // 7 + 1))[:size]
    result = ExecutionResult(
        status=Status.ACCEPTED,
        stdout=text,
        raw_stdout=text.encode(),
        files={"a/b": text.encode(), "empty": b""},
        refused_files={"c": "no"},
        cpu_time_s=0.5,
        isolation="pooled",
    )
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await send_json(send, result, 200)
    body = b"".join(message["body"] for message in sent[1:])
    assert json.loads(body) == result.model_dump(mode="json")
    assert ExecutionResult.model_validate_json(body) == result
    assert max(len(message["body"]) for message in sent[1:]) < 4_000_000
    assert base64.b64decode(json.loads(body)["files"]["a/b"]) == text.encode()
