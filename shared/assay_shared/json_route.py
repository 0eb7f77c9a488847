"""Routes that take one JSON body and answer with JSON, at the least cost.

FastAPI parses a body into Python objects, validates those, and validates what an endpoint returns
once more. Here the validator reads the bytes, and large bodies and answers stay off the event loop.
"""

import inspect
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from assay_shared.json_answer import send_json
from assay_shared.json_body import InvalidBody, Problem, Unreadable, check_presence, read_body
from assay_shared.large_bodies import LargeBodies
from assay_shared.middleware import find_header

#: Above it, a body is read in another process.
_LARGE_BYTES = 64 * 2**10


def use_json_routes(app: FastAPI) -> LargeBodies:
    """Make the routes that are added from now on `JsonRoute`s; close what is returned at the end.

    To be called before the routes are added.
    """
    app.router.route_class = JsonRoute
    app.state.large_bodies = LargeBodies()
    return app.state.large_bodies  # type: ignore[no-any-return]


def put_first(app: FastAPI) -> None:
    """Let the router look at the fastest routes before all others; to be called after those."""
    app.router.routes.sort(key=lambda route: not (isinstance(route, JsonRoute) and route.is_exact))


class JsonRoute(APIRoute):
    """A route that FastAPI declares, and that is served without it where its shape allows that.

    That is: an `async` endpoint that takes one model as its body, beside texts from the path. What
    it returns is a response, or is sent as it is: no field is left out because of its declaration.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        model = self._find_model()
        #: Whether a look at the path says all: no other route can be meant.
        self.is_exact = model is not None and "{" not in path
        if model is not None:
            self._model = model
            self._body_name = self.dependant.body_params[0].name
            self._texts = [(one.name, one.alias) for one in self.dependant.path_params]
            self.app = self._serve

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As Starlette does, without a regular expression where the path has no parameters."""
        if not self.is_exact or scope.get("root_path") or scope["type"] != "http":
            return super().matches(scope)
        if scope["path"] != self.path:
            return Match.NONE, {}
        found = {"endpoint": self.endpoint, "path_params": {}, "route": self}
        return Match.FULL if scope["method"] in (self.methods or ()) else Match.PARTIAL, found

    def _find_model(self) -> type[BaseModel] | None:
        """Return the model of the body, if this route's shape allows to serve it here."""
        wants = self.dependant
        others = (
            wants.query_params,
            wants.header_params,
            wants.cookie_params,
            wants.dependencies,
            wants.request_param_name,
            wants.response_param_name,
            wants.background_tasks_param_name,
            wants.security_scopes_param_name,
        )
        if len(wants.body_params) != 1 or self._embed_body_fields or any(others):
            return None
        if not inspect.iscoroutinefunction(self.endpoint) or not _is_default(self.response_class):
            return None
        if any(one.field_info.annotation is not str for one in wants.path_params):
            return None
        if any(one.field_info.metadata for one in wants.path_params):
            return None
        model = wants.body_params[0].field_info.annotation
        return model if isinstance(model, type) and issubclass(model, BaseModel) else None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        chunks = await _receive_body(receive)
        problem = check_presence(any(chunks), find_header(scope, b"content-type"))
        request = problem or await self._read(chunks, scope["app"].state.large_bodies)
        if isinstance(request, Problem):
            raise InvalidBody(request)
        given = scope["path_params"]
        texts = {name: given[alias] for name, alias in self._texts}
        answer = await self.endpoint(**texts, **{self._body_name: request})
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        else:
            await send_json(send, answer, self.status_code or 200)

    async def _read(self, chunks: list[bytes], large: LargeBodies) -> BaseModel | Problem:
        try:
            if sum(map(len, chunks)) > _LARGE_BYTES:
                return await large.read(self._model, chunks)
            return read_body(self._model, b"".join(chunks))
        except Unreadable:
            raise HTTPException(400, "the body cannot be parsed") from None


def _is_default(response_class: object) -> bool:
    return isinstance(response_class, DefaultPlaceholder)


async def _receive_body(receive: Receive) -> list[bytes]:
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "the connection ended within the body")
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks
