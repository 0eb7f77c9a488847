"""Fast routes for JSON requests and answers.

FastAPI parses a body into Python objects, validates the objects, and validates the endpoint's
result again. Here the validator reads the bytes, and large bodies and answers stay off the event
loop.
"""

import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from types import NoneType
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import solve_dependencies
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from assay_shared.errors import TooLarge
from assay_shared.service.bodies.answer import send_json
from assay_shared.service.bodies.body import (
    MAX_KEYS,
    MAX_VALUES,
    BodyProblem,
    InvalidBody,
    TooManyValues,
    UnreadableBody,
    check_presence,
    read_body,
)
from assay_shared.service.bodies.large_bodies import LargeBodies
from assay_shared.service.middleware import find_header

#: A larger body is read in another process.
_LARGE_BYTES = 64 * 2**10
_LIMIT = "x-body-limit-bytes"


def use_json_routes(app: FastAPI, *, takes_half_characters: bool = True) -> LargeBodies:
    """Make all routes added from now on `JsonRoute`s; return the reader of large bodies.

    Call before adding routes, and close the reader at the end. With `takes_half_characters`, texts
    may have lone surrogates, as a policy may write them; otherwise such a field is refused.
    """
    app.router.route_class = JsonRoute
    app.state.large_bodies = LargeBodies(takes_half_characters=takes_half_characters)
    return app.state.large_bodies  # type: ignore[no-any-return]


def up_to(num_bytes: int) -> dict[str, Any]:
    """Return a part of a route's `openapi_extra` with its limit on the body."""
    return {_LIMIT: num_bytes}


def body_limit_of(route: object) -> int | None:
    """Return a route's own limit on the body in bytes, or None."""
    return (getattr(route, "openapi_extra", None) or {}).get(_LIMIT)


def put_first(app: FastAPI) -> None:
    """Move the routes with the fastest match to the front; call after adding all routes."""
    app.router.routes.sort(key=lambda route: not (isinstance(route, JsonRoute) and route.is_exact))


class JsonRoute(APIRoute):
    """A FastAPI route whose body is read without FastAPI.

    This applies to an `async` endpoint with a single model as its body; other endpoints work as in
    FastAPI. The endpoint returns a response, or a value to send as it is: fields outside its
    declared return type are not removed.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        found = self._find_model()
        #: True if comparing the path is enough to match this route.
        self.is_exact = found is not None and "{" not in path
        if found is not None:
            self._model, self._is_optional = found
            self._limit_bytes = body_limit_of(self)
            self._body_name = self.dependant.body_params[0].name
            self._texts = [(one.name, one.alias) for one in self.dependant.path_params]
            self._others = self._find_others()
            self.app = self._serve

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as Starlette does; a path without parameters needs no regular expression."""
        if not self.is_exact or scope.get("root_path") or scope["type"] != "http":
            return super().matches(scope)
        if scope["path"] != self.path:
            return Match.NONE, {}
        found = {"endpoint": self.endpoint, "path_params": {}, "route": self}
        return Match.FULL if scope["method"] in (self.methods or ()) else Match.PARTIAL, found

    def _find_model(self) -> tuple[type[BaseModel], bool] | None:
        """Return the model of the body and True if it is optional; None for another endpoint."""
        wants = self.dependant
        if len(wants.body_params) != 1 or self._embed_body_fields:
            return None
        if not inspect.iscoroutinefunction(self.endpoint):
            return None
        annotation = wants.body_params[0].field_info.annotation
        models = [one for one in get_args(annotation) or (annotation,) if one is not NoneType]
        if len(models) != 1 or not (
            isinstance(models[0], type) and issubclass(models[0], BaseModel)
        ):
            return None
        return models[0], NoneType in get_args(annotation)

    def _find_others(self) -> Dependant | None:
        """Return the endpoint's parameters except the body and texts of the path, or None."""
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
            any(one.field_info.annotation is not str for one in wants.path_params),
            any(one.field_info.metadata for one in wants.path_params),
        )
        return replace(wants, body_params=[]) if any(others) else None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._others is None:
            given = scope["path_params"]
            values = {name: given[alias] for name, alias in self._texts}
            return await self._answer(values, scope, receive, send)
        async with AsyncExitStack() as stack:
            scope["fastapi_inner_astack"] = scope["fastapi_function_astack"] = stack
            solved = await solve_dependencies(
                request=Request(scope, receive),
                dependant=self._others,
                async_exit_stack=stack,
                embed_body_fields=False,
            )
            if solved.errors:
                raise RequestValidationError(solved.errors)
            await self._answer(solved.values, scope, receive, send)

    async def _answer(
        self, values: dict[str, Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        chunks = await _receive_body(scope, receive, self._limit_bytes)
        request: BaseModel | BodyProblem | None = None
        if any(chunks) or not self._is_optional:
            problem = check_presence(any(chunks), find_header(scope, b"content-type"))
            request = problem or await self._read(chunks, scope["app"].state.large_bodies)
        if isinstance(request, BodyProblem):
            raise InvalidBody(request)
        answer = await self.endpoint(**values, **{self._body_name: request})
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        else:
            await send_json(send, answer, self.status_code or 200)

    async def _read(
        self, chunks: list[bytes], large: LargeBodies
    ) -> BaseModel | BodyProblem | None:
        try:
            if sum(map(len, chunks)) > _LARGE_BYTES:
                return await large.read(self._model, chunks)
            body = b"".join(chunks)
            if self._is_optional and body.strip() == b"null":
                return None
            half = large.takes_half_characters
            return read_body(self._model, body, takes_half_characters=half)
        except TooManyValues:
            raise TooLarge(
                f"the body has more than {MAX_VALUES} values or {MAX_KEYS} keys"
            ) from None
        except UnreadableBody:
            raise HTTPException(400, "the body cannot be parsed") from None


async def _receive_body(scope: Scope, receive: Receive, limit_bytes: int | None) -> list[bytes]:
    """Return the body in chunks; raise TooLarge by its announced or counted length."""
    announced = find_header(scope, b"content-length")
    _check_length(int(announced) if announced.isdigit() else 0, limit_bytes)
    chunks: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "the connection ended within the body")
        chunks.append(message.get("body", b""))
        num_bytes += len(chunks[-1])
        _check_length(num_bytes, limit_bytes)
        if not message.get("more_body", False):
            return chunks


def _check_length(num_bytes: int, limit_bytes: int | None) -> None:
    if limit_bytes is not None and num_bytes > limit_bytes:
        raise TooLarge(f"the body is over {limit_bytes} bytes, which is this route's limit")
