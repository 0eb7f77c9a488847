"""Traces of a request in memory."""

import asyncio
import gc

import pytest
from starlette.types import Message, Receive, Scope, Send

from assay_shared.service import middleware
from assay_shared.service.middleware import CancelOnDisconnect


@pytest.mark.slow
async def test_a_request_whose_connection_was_watched_leaves_nothing_to_the_collector() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await asyncio.sleep(0.1)  # for as long, nobody watches
        await send({"type": "http.response.start", "status": 200, "headers": []})

    messages: asyncio.Queue[Message] = asyncio.Queue()
    await messages.put({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    gc.collect()
    gc.disable()
    try:
        await CancelOnDisconnect(app)({"type": "http"}, messages.get, send)
        await asyncio.sleep(0)
        left = [one for one in gc.get_objects() if type(one) is middleware._Connection]
    finally:
        gc.enable()
    assert [message["status"] for message in sent] == [200]
    assert not left
