"""Routes of the demo's page. Only `assay demo` has them: no service serves them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from assay_shared.runs.run_folder import RunFolder
from assay_shared.service.app import create_service
from assay_shared.service.auth import needs
from assay_shared.service.browsers import content_policy
from assay_shared.settings.api_keys import Scope
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.browser.api.routes import add_pages
from assay_trainer.config import RunConfig
from assay_trainer.service.demo.kills import KillableMesh, ProcessKills
from assay_trainer.service.demo.own_page import refuse_others
from assay_trainer.service.demo.pages import DemoPages
from assay_trainer.service.demo.policies import MOST_CHARACTERS, PolicyPair
from assay_trainer.service.runs import Runs

#: Where a link leads.
FIRST_PAGE = "/demo"
_INDEXES = ".browser"
_BODY_BYTES = 16 * 2**10
_AT_ONCE = 2
_READ = needs(Scope.TRAINER_READ)


class DemoQuestion(BaseModel):
    """A prompt, or the id of a held-out task; the task counts if both are given."""

    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[str, Field(max_length=MOST_CHARACTERS)] = ""
    task: Annotated[str, Field(max_length=1000)] = ""


def create_demo_app(mesh: KillableMesh, config: RunConfig, token: str, port: int) -> FastAPI:
    """Return the page's app.

    Args:
        mesh: the processes, and the folder of the run's folder.
        config: of the run.
        token: secret of this demo; the page's script sends it with each button.
        port: where the page is served, on the loopback address.
    """
    home = mesh.home
    runs, run = Runs(home), home / config.name
    kills = ProcessKills(mesh)
    pair = PolicyPair(RunFolder(run), config, mesh.urls)
    pages = DemoPages(run, home / _INDEXES, token)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        kills.close()
        browser.close()

    settings = ServiceSettings(
        token=SecretStr(token),
        client_tokens={},
        client_tokens_file=None,
        allowed_hosts="localhost",
        body_limit_bytes=_BODY_BYTES,
    )
    app = create_service("demo", settings, lifespan, first_page=FIRST_PAGE)
    browser = add_pages(app, runs, home / _INDEXES)
    _add_views(app, kills, pair, pages)
    _add_actions(app, kills, pair, pages, port)
    return app


class _Answers:
    """Makes pages in a few threads, with the policy of their contents."""

    def __init__(self, pages: DemoPages) -> None:
        self._making = asyncio.Semaphore(_AT_ONCE)
        self._headers = {
            "content-security-policy": content_policy(pages.inline),
            "cache-control": "no-store",
        }

    async def page(self, make: Callable[[], str]) -> HTMLResponse:
        async with self._making:
            return HTMLResponse(await asyncio.to_thread(make), headers=self._headers)


def _add_views(app: FastAPI, kills: ProcessKills, pair: PolicyPair, pages: DemoPages) -> None:
    answers = _Answers(pages)

    @app.get(FIRST_PAGE, include_in_schema=False, openapi_extra=_READ)
    async def panel() -> HTMLResponse:
        """Return the page with the buttons."""
        names = kills.names
        return await answers.page(lambda: pages.panel(names))

    @app.get("/demo/account", include_in_schema=False, openapi_extra=_READ)
    async def account() -> HTMLResponse:
        """Return the account of groups and the kills."""
        done = kills.done
        return await answers.page(lambda: pages.account(done))

    @app.get("/demo/chat", include_in_schema=False, openapi_extra=_READ)
    async def chat() -> HTMLResponse:
        """Return the page on which both policies are asked."""
        return await answers.page(lambda: pages.chat(pair.tasks(), pair.why_closed))


def _add_actions(
    app: FastAPI, kills: ProcessKills, pair: PolicyPair, pages: DemoPages, port: int
) -> None:
    answers = _Answers(pages)

    async def own_page(request: Request) -> None:
        refuse_others(request.headers, request.client.host if request.client else "", port)

    own = [Depends(own_page)]

    @app.post(
        "/demo/kills/{name}",
        include_in_schema=False,
        dependencies=own,
        openapi_extra=needs(Scope.TRAINER_CONTROL, action="kill process"),
    )
    async def kill(name: str) -> dict[str, str | int]:
        """Kill a process of the demo."""
        killed = kills.kill(name)
        return {"name": killed.name, "pid": killed.pid}

    @app.post(
        "/demo/answers",
        include_in_schema=False,
        dependencies=own,
        openapi_extra=needs(Scope.TRAINER_CONTROL, action="ask policies"),
    )
    async def ask(question: DemoQuestion) -> HTMLResponse:
        """Return the answers of the policy before and after."""
        task, asked = await pair.ask(question.prompt, question.task)
        return await answers.page(lambda: pages.answers(question.prompt, task, asked))
