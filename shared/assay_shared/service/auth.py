"""Authentication and authorization of requests: bearer tokens, scopes, and rate limits of keys.

A route names its scope in its declaration:

    @app.post("/v1/pause", openapi_extra=needs(Scope.INFERENCE_CONTROL, action="pause"))

With an action, each call of the route is written to the audit log. A route without a scope is open
only to keys without a list of scopes.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from assay_shared.errors import AssayError, Forbidden, Unauthorized
from assay_shared.service.browser_session import COOKIE, COOKIE_S, OPEN_ROUTE, BrowserSessions
from assay_shared.service.key_ring import KeyOwner, KeyRing
from assay_shared.service.middleware import OPEN_PATHS, answer_error, find_header
from assay_shared.settings.api_keys import Scope
from assay_shared.telemetry.context import client_scope

#: Paths open to every key: the documentation of the routes.
FOR_ANY_KEY = frozenset({"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"})
#: Key of the ASGI scope for the name of the request's client.
CLIENT = "assay.client"
#: Key of the ASGI scope for the priorities its generations may name; the value None means all.
PRIORITIES = "assay.priorities"
_MAX_QUERY = 1024
_SCOPE, _ACTION = "x-assay-scope", "x-assay-action"
#: Methods a browser may authenticate by password or cookie. It sends both with requests of other
#: sites' pages too, so other methods could change something for a stranger's page.
_FOR_BROWSERS = frozenset({"GET", "HEAD"})


def needs(scope: Scope, *, action: str | None = None) -> dict[str, Any]:
    """Return the `openapi_extra` of a route with its required scope and its audited action."""
    return {_SCOPE: scope.value} | ({} if action is None else {_ACTION: action})


def scope_of(route: BaseRoute | None) -> Scope | None:
    """Return the required scope of a route, or None."""
    named = _extra(route).get(_SCOPE)
    return None if named is None else Scope(named)


def action_of(route: BaseRoute | None) -> str | None:
    """Return the action of a route for the audit log, or None."""
    action = _extra(route).get(_ACTION)
    return None if action is None else str(action)


def _extra(route: BaseRoute | None) -> dict[str, Any]:
    return getattr(route, "openapi_extra", None) or {}


def _find_route(routes: Iterable[BaseRoute], connection: Connection) -> BaseRoute | None:
    return next((r for r in routes if r.matches(connection)[0] is Match.FULL), None)


class BearerAuth:
    """ASGI middleware that requires `Authorization: Bearer <token>` on all but the open paths.

    To read, a browser may send the token as the password of any user (RFC 7617), or the cookie from
    a dashboard link. The token identifies the client.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: KeyRing,
        service: str,
        routes: Callable[[], Iterable[BaseRoute]],
        first_page: str = "/",
    ) -> None:
        """Store the keys; a link leads to `first_page`."""
        self._app = app
        self._keys = keys
        self._service = service
        self._routes = routes
        self._first_page = first_page.encode()
        secret = keys.own_token_digest
        self._sessions = None if secret is None else BrowserSessions(secret)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            return await self._app(scope, receive, send)
        if scope["path"] == OPEN_ROUTE and scope["method"] == "GET":
            return await self._open(scope, send)
        client = self._find_client(scope)
        try:
            if client is None:
                raise Unauthorized(
                    "this service asks for a bearer token",
                    hint=f"set ASSAY_{self._service.upper()}_TOKEN or ASSAY_TOKEN; "
                    "`assay up` keeps its own in runs/token",
                )
            scope[CLIENT] = client.name
            scope[PRIORITIES] = client.priorities
            client.check_not_expired()
            client.count()
            self._check_scope(client, scope)
        except AssayError as error:
            # For metrics and audit: a request refused here never reaches the router.
            scope["route"] = _find_route(self._routes(), scope)
            return await answer_error(error, self._service, send)
        with client_scope(client.name):
            await self._app(scope, receive, send)

    async def _open(self, scope: Connection, send: Send) -> None:
        """Exchange a link's code for a cookie, and redirect to the page."""
        code = parse_qs(scope["query_string"][:_MAX_QUERY].decode("latin-1")).get("code", [""])[0]
        cookie = None if self._sessions is None else self._sessions.exchange(code)
        if cookie is None:
            error = Unauthorized(
                "this link was opened already, or is too old",
                hint="`assay dashboard` prints a new one",
            )
            return await answer_error(error, self._service, send)
        flags = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_S}"
        if scope["scheme"] == "https":
            flags += "; Secure"
        headers = [
            (b"location", self._first_page),
            (b"set-cookie", f"{COOKIE}={cookie}; {flags}".encode()),
            (b"cache-control", b"no-store"),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body"})

    def _find_client(self, scope: Connection) -> KeyOwner | None:
        found = self._keys.find(_given_token(scope))
        if found is None and self._sessions is not None and scope["method"] in _FOR_BROWSERS:
            is_ours = self._sessions.is_good(find_header(scope, b"cookie"))
            return self._keys.own() if is_ours else None
        return found

    def _check_scope(self, client: KeyOwner, scope: Connection) -> None:
        if client.scopes is None or scope["path"] in FOR_ANY_KEY:
            return
        route = _find_route(self._routes(), scope)
        if route is None:
            return  # it will be a 404 or 405
        needed = scope_of(route)
        if needed is None:
            raise Forbidden(f"the key of {client.name!r} has scopes, but this route names none")
        if needed not in client.scopes:
            raise Forbidden(f"the key of {client.name!r} lacks the scope {needed}")


def _given_token(scope: Connection) -> str:
    """Return the token of a request, or ""; no client has an empty token."""
    scheme, _, credentials = find_header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip()
    if scheme.lower() == "basic" and scope["method"] in _FOR_BROWSERS:
        try:
            return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""
