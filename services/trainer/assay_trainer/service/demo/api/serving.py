"""Serves the demo's page from a thread of the demo, at a free port of the loopback address."""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from assay_shared.errors import InternalFault
from assay_shared.local.listeners import url_of
from assay_shared.service.browser_session import make_link
from assay_shared.service.server import bind
from assay_trainer.config import RunConfig
from assay_trainer.service.demo.api.routes import create_demo_app
from assay_trainer.service.demo.kills import KillableMesh

_START_S, _STOP_S = 30.0, 10.0
_MOST_CONNECTIONS = 64


@dataclass(frozen=True)
class ServedPage:
    """The page's address and its secret."""

    url: str
    token: str

    def link(self) -> str:
        """Return a link that opens the page once."""
        return make_link(self.url, self.token)


@contextmanager
def served_page(mesh: KillableMesh, config: RunConfig) -> Iterator[ServedPage]:
    """Serve the page of a mesh within the block.

    Raises:
        InternalFault: it does not start.
    """
    listener = bind("127.0.0.1", 0)
    page = ServedPage(url_of(listener), secrets.token_urlsafe(32))
    port = listener.getsockname()[1]
    app = create_demo_app(mesh, config, page.token, port)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield page
    finally:
        server.should_exit = True
        thread.join(_STOP_S)
        listener.close()


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise InternalFault("the demo's page does not start")
        time.sleep(0.02)
