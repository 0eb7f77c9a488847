"""Routes of pages: a request that cannot be used gets a page too."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from assay_shared.errors import InvalidInput
from assay_shared.service.app import describe_invalid


def page_route(refuse: Callable[[InvalidInput], Response]) -> type[APIRoute]:
    """Return a class of routes; `refuse` makes the page of an error."""

    class PageRoute(APIRoute):
        """A route that refuses unknown parameters, and answers errors with a page."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Return the handler of FastAPI with pages for its refusals."""
            handle = super().get_route_handler()
            known = sorted(set(_parameters(self.dependant)))

            async def answer(request: Request) -> Response:
                unknown = [name for name in request.query_params if name not in known]
                if unknown:
                    return refuse(_unknown(unknown[0], known))
                try:
                    return await handle(request)
                except RequestValidationError as error:
                    return refuse(describe_invalid(error))

            return answer

    return PageRoute


def _parameters(wanted: Dependant) -> Iterator[str]:
    yield from (one.alias for one in wanted.query_params)
    for one in wanted.dependencies:
        yield from _parameters(one)


def _unknown(name: str, known: list[str]) -> InvalidInput:
    hint = f"there are {', '.join(known)}" if known else "it takes none"
    return InvalidInput("is not a parameter of this page", field=f"{name:.80}", hint=hint)
