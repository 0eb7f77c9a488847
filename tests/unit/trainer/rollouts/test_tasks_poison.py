"""Malformed messages on the rollout queue: a real worker outlives them, and they are kept."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from assay_shared.errors import InvalidInput, to_body
from assay_shared.runs import dead_letters
from assay_shared.runs.queue import ROLLOUT_QUEUE, RUN_GROUP_TASK, UNACKED_KEY, make_celery
from assay_shared.runtime.processes import end, spawn
from assay_shared.types import GroupRequest, SamplingParams
from assay_trainer.rollouts.store import GroupStore
from tests.conftest import Serve, wait_until
from tests.support.fakes import make_task
from tests.support.valkey import TestValkey


def request(key: str) -> dict[str, object]:
    task = make_task(key)
    whole = GroupRequest(key=key, run="r", task=task, sampling=SamplingParams())
    return whole.model_dump(mode="json")


def message(body: object, **headers: object) -> bytes:
    """Return a message as Celery writes it, but for its planted error."""
    text = body if isinstance(body, str) else json.dumps(body)
    whole = {
        "body": base64.b64encode(text.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": RUN_GROUP_TASK, "id": "1", "retries": 0} | headers,
        "properties": {
            "correlation_id": "1",
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": ROLLOUT_QUEUE},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": "tag",
        },
    }
    return json.dumps(whole).encode()


GOOD = [[request("x")], {}, {}]
#: By the reason that each is counted under.
POISON: dict[str, list[bytes]] = {
    "not_json": [
        b"garbage",
        b"\xff\xfe\x00",
        b"",
        b"[" * 100_000,
        b'{"__type__": "datetime", "__value__": 7}',
    ],
    "not_an_envelope": [
        b"7",
        b"null",
        b"[]",
        b"{}",
        b'{"body": "e30=", "properties": {}, "headers": {}}',
        b'{"body": "e30=", "properties": null, "headers": null}',
        message(GOOD, id=None),
    ],
    "unknown_task": [message(GOOD, task="rollouts.other"), message(GOOD, task=["x"])],
    "wrong_arguments": [
        message([[[]]]),
        message([]),
        message("{"),
        message([[], {}, {}]),
        message([[1], {}, {}]),
        message([[{}], {"more": 1}, 5]),
        message("[" * 100_000),
    ],
    "invalid_request": [
        message([[{}], {}, {}]),
        message([[request("x") | {"sampling": {"n": "many"}}], {}, {}]),
        message([[request("x") | {"key": 7, "surprise": "\x00"}], {}, {}]),
    ],
}


@pytest.fixture
def inference(serve: Serve) -> str:
    """A policy with a refusal for every prompt."""
    app = FastAPI()

    @app.post("/v1/generate")
    async def generate() -> JSONResponse:
        body = to_body(InvalidInput("too long"), "inference", None)
        return JSONResponse(body.model_dump(mode="json"), status_code=422)

    return serve(app)


@pytest.fixture
def worker(
    own_valkey: TestValkey, inference: str, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "assay_shared.cli", "worker", "--concurrency", "2")
    environment = os.environ | {
        "ASSAY_REDIS_URL": own_valkey.url,
        "ASSAY_INFERENCE_URL": inference,
    }
    process = spawn(command, log=tmp_path / "worker.log", environment=environment)
    yield process
    end([process], 10)


@pytest.mark.slow
def test_no_malformed_message_ends_a_worker_and_each_is_kept_with_its_reason(
    own_valkey: TestValkey, worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with redis.Redis.from_url(own_valkey.url) as client:
        for messages in POISON.values():
            for one in messages:
                client.lpush(ROLLOUT_QUEUE, one)
        for odd in ({"eta": {"a": 1}}, {"timelimit": "x"}, {"expires": [1]}, {"retries": "y"}):
            client.lpush(ROLLOUT_QUEUE, message([[request("odd")], {}, {}], **odd))
        store = GroupStore(own_valkey.url)
        make_celery(own_valkey.url).send_task(
            RUN_GROUP_TASK, args=[request("a")], queue=ROLLOUT_QUEUE
        )
        wait_until(lambda: "a" in store.fetch(["a"]), "the good message to be played")
        counts = dead_letters.read_counts(client)
        assert worker.poll() is None, (tmp_path / "worker.log").read_text()
        expected = {reason: len(messages) for reason, messages in POISON.items()}
        assert {reason: counts.get(reason) for reason in expected} == expected
        letters = dead_letters.read_letters(client, 1000)
        assert len(letters) == sum(counts.values())
        (first,) = [letter for letter in letters if letter.content == "garbage"]
        for reason in POISON.keys() - {"invalid_request"}:  # of those, the request is kept
            for one in POISON[reason]:
                start = one[:1000].decode(errors="backslashreplace")
                assert any(letter.content.startswith(start) for letter in letters), start
        assert (first.queue, first.reason, first.num_bytes) == (ROLLOUT_QUEUE, "not_json", 7)
        wait_until(lambda: client.hlen(UNACKED_KEY) == 0, "nothing to be left unacknowledged")
        assert client.llen(ROLLOUT_QUEUE) == 0
    shown = subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "trainer", "dead-letters", "--clear"],
        env=os.environ | {"ASSAY_REDIS_URL": own_valkey.url},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "rollouts: wrong_arguments: the body is not [[OBJECT], {}, {}]" in shown
    assert f"{len(letters)} forgotten" in shown


def test_the_letters_are_capped_and_the_counts_are_not(valkey: TestValkey) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        for number in range(1010):
            dead_letters.bury(client, "q", "not_json", "d" * 5000, b"\xff" * 5000 + b"%d" % number)
        assert len(dead_letters.read_letters(client, 5000)) == 1000
        assert dead_letters.read_counts(client) == {"not_json": 1010}
        assert max(map(len, client.lrange(dead_letters.LETTERS, 0, -1))) < 25_000


def test_a_result_that_cannot_be_read_is_buried_and_played_again(valkey: TestValkey) -> None:
    store = GroupStore(valkey.url)
    with redis.Redis.from_url(valkey.url) as client:
        client.set("assay:group:a", b"\xffnothing")
        assert store.fetch(["a", "b"]) == {}
        assert not store.has("a")
        assert dead_letters.read_counts(client) == {"unreadable_result": 1}
