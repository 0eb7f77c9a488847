"""Who may ask a service for what: bearer tokens, scopes, and how often a key may ask.

A route names its scope where it is declared:

    @app.post("/v1/pause", openapi_extra=needs(Scope.INFERENCE_CONTROL, action="pause"))

With an action, each call of it is written to the audit log. A route that names nothing is open
only to keys without a list of scopes.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from assay_shared.context import client_scope
from assay_shared.errors import AssayError, Forbidden, Overloaded, Unauthorized
from assay_shared.middleware import OPEN_PATHS, answer_error, find_header
from assay_shared.scopes import ClientKey, Scope

#: Every key may read what routes there are.
FOR_ANY_KEY = frozenset({"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"})
#: Where a request's connection keeps the name of its client.
CLIENT = "assay.client"
_SCOPE, _ACTION = "x-assay-scope", "x-assay-action"
#: A browser sends what it has been told once with every request, whichever page made it ask.
_FOR_BROWSERS = frozenset({"GET", "HEAD"})
#: What may come at once, as a share of a minute's requests.
_BURST_MINUTES = 1 / 6


def needs(scope: Scope, *, action: str | None = None) -> dict[str, Any]:
    """A route's `openapi_extra`: the scope that it asks for, and the action that is audited."""
    return {_SCOPE: scope.value} | ({} if action is None else {_ACTION: action})


def scope_of(route: BaseRoute | None) -> Scope | None:
    """The scope that a route names, if it does."""
    named = _extra(route).get(_SCOPE)
    return None if named is None else Scope(named)


def action_of(route: BaseRoute | None) -> str | None:
    """What a call of a route does that is written to the audit log."""
    action = _extra(route).get(_ACTION)
    return None if action is None else str(action)


def _extra(route: BaseRoute | None) -> dict[str, Any]:
    return getattr(route, "openapi_extra", None) or {}


def _find_route(routes: Iterable[BaseRoute], connection: Connection) -> BaseRoute | None:
    return next((r for r in routes if r.matches(connection)[0] is Match.FULL), None)


class BearerAuth:
    """Asks for `Authorization: Bearer <token>` on all but the open paths.

    To read, a browser may send the token as the password of any user (RFC 7617).

    Tokens have names: whose token it is, is who asks. They are kept as digests alone, and each
    request is compared with all of them, in constant time.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: Mapping[str, ClientKey],
        service: str,
        routes: Callable[[], Iterable[BaseRoute]],
    ) -> None:
        self._app = app
        self._clients = [_Client.of(name, key) for name, key in keys.items()]
        self._service = service
        self._routes = routes

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            return await self._app(scope, receive, send)
        client = self._find_client(scope)
        try:
            if client is None:
                raise Unauthorized(
                    "this service asks for a bearer token",
                    hint=f"set ASSAY_{self._service.upper()}_TOKEN or ASSAY_TOKEN",
                )
            scope[CLIENT] = client.name
            client.count()
            self._check_scope(client, scope)
        except AssayError as error:
            # For metrics and audit: nobody else looks for the route of what is refused here.
            scope["route"] = _find_route(self._routes(), scope)
            return await answer_error(error, self._service, send)
        with client_scope(client.name):
            await self._app(scope, receive, send)

    def _find_client(self, scope: Connection) -> "_Client | None":
        given = _digest(_given_token(scope))
        found = None
        for client in self._clients:  # to the end: the time it takes says nothing
            if hmac.compare_digest(given, client.digest):
                found = client
        return found

    def _check_scope(self, client: "_Client", scope: Connection) -> None:
        if client.scopes is None or scope["path"] in FOR_ANY_KEY:
            return
        route = _find_route(self._routes(), scope)
        if route is None:
            return  # it will be a 404 or 405
        needed = scope_of(route)
        if needed is None:
            raise Forbidden(f"the key of {client.name!r} is for some scopes, and this has none")
        if needed not in client.scopes:
            raise Forbidden(f"the key of {client.name!r} lacks the scope {needed}")


@dataclass
class _Client:
    """A key, and how many requests it may send now: a bucket that fills all the time."""

    name: str
    digest: bytes
    scopes: frozenset[Scope] | None
    requests_per_minute: int | None
    num_left: float
    counted_at: float

    @classmethod
    def of(cls, name: str, key: ClientKey) -> "_Client":
        token, limit = key.token.get_secret_value(), key.requests_per_minute
        return cls(
            name=name,
            digest=_digest(token),
            scopes=key.scopes,
            requests_per_minute=limit,
            num_left=_burst(limit),
            counted_at=time.monotonic(),
        )

    def count(self) -> None:
        """Raises Overloaded if the key has asked too often."""
        limit = self.requests_per_minute
        if limit is None:
            return
        now = time.monotonic()
        gained = (now - self.counted_at) * limit / 60
        self.num_left, self.counted_at = min(_burst(limit), self.num_left + gained), now
        if self.num_left < 1:
            raise Overloaded(
                f"the key of {self.name!r} may send {limit} requests a minute",
                retry_after_s=(1 - self.num_left) * 60 / limit,
            )
        self.num_left -= 1


def _burst(requests_per_minute: int | None) -> float:
    return max(1.0, (requests_per_minute or 0) * _BURST_MINUTES)


def _given_token(scope: Connection) -> str:
    """What a request shows, or nothing, which is no client's token."""
    scheme, _, credentials = find_header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() == "basic" and scope["method"] in _FOR_BROWSERS:
        try:
            return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
