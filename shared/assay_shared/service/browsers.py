"""Protection of services from other sites' web pages in a user's browser.

Two attacks are blocked. A page sends a form or a script's request to a service's address: the
`Origin` header names the page's site. A site's own name is made to point to this machine (DNS
rebinding): the `Host` header has the site's name.
"""

import base64
import hashlib
import ipaddress
import re
import socket
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from assay_shared.errors import AssayError, Forbidden
from assay_shared.service.middleware import OPEN_PATHS, answer_error, find_header

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class BrowserGuard:
    """ASGI middleware that refuses foreign hosts, and requests made by pages of other sites.

    A request with a bearer token passes the check of its origin: a browser never adds a bearer
    token to a request of a page.
    """

    def __init__(
        self, app: ASGIApp, service: str, allowed_hosts: Sequence[str], *, has_keys: bool
    ) -> None:
        """Store the allowed hosts; without any, a service with keys accepts every host."""
        self._app = app
        self._service = service
        self._any_host = has_keys and not allowed_hosts
        self._hosts = frozenset(name.lower() for name in (*allowed_hosts, *_OWN_NAMES))

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                self._check(scope)
            except AssayError as error:
                return await answer_error(error, self._service, send)
        await self._app(scope, receive, send)

    def _check(self, scope: Connection) -> None:
        host = find_header(scope, b"host")
        if not self._any_host and not self._is_own(host):
            raise Forbidden(
                f"{host!r:.80} is not a name of this service",
                field="host",
                hint="ASSAY_ALLOWED_HOSTS lists the allowed names",
            )
        if scope["method"] in _SAFE:
            return
        origin = find_header(scope, b"origin")
        has_token = find_header(scope, b"authorization")[:7].lower() == "bearer "
        if origin and not has_token and urlsplit(origin).netloc.lower() != host.lower():
            raise Forbidden(f"a page of {origin!r:.80} may not ask for this", field="origin")

    def _is_own(self, host: str) -> bool:
        """Return True if a Host header is a known name, or an address: rebinding needs a name."""
        name = _without_port(host)
        return name in self._hosts or name.endswith(".localhost") or _is_address(name)


def content_policy(page: str, forms: str = "'none'") -> str:
    """Return a Content-Security-Policy that allows only the page's own scripts, styles, service.

    `forms` are the places to which its forms may lead.
    """

    def sources(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashes = (base64.b64encode(hashlib.sha256(one.encode()).digest()) for one in found)
        return " ".join(f"'sha256-{one.decode()}'" for one in hashes) or "'none'"

    return (
        f"default-src 'none'; script-src {sources('script')}; style-src {sources('style')}; "
        f"connect-src 'self'; img-src data:; base-uri 'none'; form-action {forms}; "
        "frame-ancestors 'none'"
    )


_OWN_NAMES = ("localhost", socket.gethostname().lower())


@lru_cache(maxsize=1024)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
