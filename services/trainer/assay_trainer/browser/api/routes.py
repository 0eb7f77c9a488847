"""Routes of the browser's pages, for the trainer service."""

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

from fastapi import Depends, FastAPI, Header, Query, Response
from fastapi.responses import HTMLResponse

from assay_shared.clients.trainer import RunInfo
from assay_shared.errors import AssayError
from assay_shared.service.auth import needs
from assay_shared.service.browsers import content_policy
from assay_shared.settings.api_keys import Scope
from assay_trainer.browser.api.page_route import page_route
from assay_trainer.browser.facts.differing import check_number_of_runs
from assay_trainer.browser.facts.pipeline_facts import NoPipelines, PipelineListing
from assay_trainer.browser.pages.joint_curves import CurveAxis
from assay_trainer.browser.pages.run_list import RunColumn
from assay_trainer.browser.pages.service_pages import ServicePages
from assay_trainer.browser.reading.building import SAMPLES_PER_GROUP
from assay_trainer.browser.reading.parsing import NO_SAMPLE

#: Pages made at once; a run in the same process group keeps the rest of the cores.
_AT_ONCE = 2
#: Pages of results, which may wait for a comparison of large evaluations.
_RESULTS_AT_ONCE = 4
_CATCH_UP_S = 0.5
_READ = needs(Scope.TRAINER_READ)
_Made = TypeVar("_Made")
#: -1 is the place of a group that failed before it had samples.
_Place = Annotated[int, Query(ge=NO_SAMPLE, le=SAMPLES_PER_GROUP)]
_Text = Annotated[str, Query(max_length=1000)]


def given_filters(
    outcome: _Text = "",
    task: _Text = "",
    tag: _Text = "",
    component: _Text = "",
    text: _Text = "",
    step: _Text = "",
    reason: _Text = "",
    kept: _Text = "",
) -> dict[str, str]:
    """Return the filters of a query as they were written, by their names."""
    return {
        "outcome": outcome,
        "task": task,
        "tag": tag,
        "component": component,
        "text": text,
        "step": step,
        "reason": reason,
        "kept": kept,
    }


_Given = Annotated[dict[str, str], Depends(given_filters)]


class RunListing(Protocol):
    """The runs of the service."""

    def list(self) -> list[RunInfo]:
        """Return all runs, newest first."""

    def info(self, name: str) -> RunInfo:
        """Return a run's state."""


class PageRoutes:
    """Makes pages in a few threads, and reads long files to their end in the background."""

    def __init__(self, runs: RunListing, indexes: Path, pipelines: PipelineListing) -> None:
        self._runs = runs
        self._pages = ServicePages(indexes, pipelines)
        self._making = asyncio.Semaphore(_AT_ONCE)
        self._comparing = asyncio.Semaphore(_RESULTS_AT_ONCE)
        self._reading: dict[str, asyncio.Task[None]] = {}
        policy = content_policy(self._pages.inline, forms="'self'")
        self._headers = {"content-security-policy": policy, "cache-control": "no-store"}

    def close(self) -> None:
        """End the reading in the background."""
        for task in self._reading.values():
            task.cancel()

    def _info(self, name: str) -> RunInfo:
        """Return a run of the service, or of a pipeline's stage."""
        return self._pages.pipelines.run_of(name) or self._runs.info(name)

    async def _make(
        self, make: Callable[[], _Made], places: asyncio.Semaphore | None = None
    ) -> _Made:
        async with places or self._making:
            return await asyncio.to_thread(make)

    async def _answered(
        self, make: Callable[[], str], places: asyncio.Semaphore | None = None
    ) -> Response:
        """Return a page, or the page of an error that a person can act on."""
        try:
            return self._answer(await self._make(make, places))
        except AssayError as error:
            return self.refuse(error)

    def refuse(self, error: AssayError) -> Response:
        """Return the page of an error."""
        return self._answer(self._pages.error(str(error)), error.http_status)

    def _answer(self, html: str, status: int = 200) -> HTMLResponse:
        return HTMLResponse(html, status_code=status, headers=self._headers)

    def _catch_up(self, name: str) -> None:
        """Read a run's lines to their end, if nobody does so already."""

        def read() -> int:
            opened, _ = self._pages.read(self._info(name))
            return opened.index.update(_CATCH_UP_S).bytes_left

        self._read_on(f"lines of {name}", read)

    def _count_on(self, name: str) -> None:
        """Count a run's tasks to their end, if nobody does so already."""
        self._read_on(f"tasks of {name}", lambda: self._pages.count_tasks(self._info(name)))

    def _read_on(self, what: str, read: Callable[[], int]) -> None:
        task = self._reading.get(what)
        if task is None or task.done():
            self._reading[what] = asyncio.create_task(self._read_all(read))

    async def _read_all(self, read: Callable[[], int]) -> None:
        """Call `read` until nothing is left of the bytes that it returns."""
        before, left = -1, await asyncio.to_thread(read)
        while left not in (0, before):  # the same number is a half-written line
            before, left = left, await asyncio.to_thread(read)

    async def all_runs(
        self,
        q: _Text = "",
        page: Annotated[int, Query(ge=0, le=10**6)] = 0,
        sort: RunColumn = RunColumn.CHANGED,
    ) -> Response:
        """Return the page of all runs."""
        return self._answer(
            await self._make(lambda: self._pages.runs(self._runs.list(), q, page, sort))
        )

    async def one_run(self, name: str) -> Response:
        """Return the page of a run: state, results, funnel, curves, times."""
        answer = await self._answered(lambda: self._pages.run(self._info(name)))
        if answer.status_code == 200:
            self._catch_up(name)
        return answer

    async def live_part(
        self, name: str, if_none_match: Annotated[str, Header(max_length=200)] = ""
    ) -> Response:
        """Return the changing part of a run's page, or 304 if it has not changed."""
        part = await self._make(lambda: self._pages.live(self._info(name), if_none_match))
        self._catch_up(name)
        if part is None:
            return Response(status_code=304, headers=self._headers)
        answer = self._answer(part.html)
        answer.headers["etag"] = part.stamp
        return answer

    async def all_samples(self, name: str, given: _Given, after: _Text = "") -> Response:
        """Return the page of a run's groups and samples, by filters."""
        is_right = True

        def make() -> str:
            nonlocal is_right
            html, is_right = self._pages.samples(self._info(name), given, after)
            return html

        answer = await self._answered(make)
        if answer.status_code == 200:
            self._catch_up(name)
            answer.status_code = 200 if is_right else 422
        return answer

    async def one_sample(
        self,
        name: str,
        group: _Text,
        place: _Place,
        given: _Given,
        at: _Text = "",
    ) -> Response:
        """Return the page of a sample, with links to its neighbours under the filters."""
        return await self._answered(
            lambda: self._pages.sample(self._info(name), group, place, given, at)
        )

    async def evaluations(self, name: str) -> Response:
        """Return the page of a run's evaluations before and after training."""
        return await self._answered(
            lambda: self._pages.evaluations(self._info(name)), self._comparing
        )

    async def data(self, name: str) -> Response:
        """Return the page of a run's data: sets, tasks, mixtures, leaks and duplicates."""
        answer = await self._answered(lambda: self._pages.data(self._info(name)))
        if answer.status_code == 200:
            self._catch_up(name)
            self._count_on(name)
        return answer

    async def turned(
        self, name: str, task: _Text, set_name: Annotated[str, Query(alias="set", max_length=200)]
    ) -> Response:
        """Return the page of a task before and after training."""
        return await self._answered(
            lambda: self._pages.turned(self._info(name), set_name, task), self._comparing
        )

    async def all_pipelines(self) -> Response:
        """Return the page of all pipelines next to the runs."""
        return self._answer(await self._make(self._pages.pipelines.all))

    async def one_pipeline(
        self,
        name: str,
        part: bool = False,
        if_none_match: Annotated[str, Header(max_length=200)] = "",
    ) -> Response:
        """Return the page of a pipeline: its stages with states, gates and costs.

        With `part`, return the changing part alone, or 304 if it has not changed.
        """
        answer = await self._answered(lambda: self._pages.pipelines.one(name, is_part=part))
        if not part or answer.status_code != 200:
            return answer
        stamp = f'"{blake2b(bytes(answer.body), digest_size=12).hexdigest()}"'
        if stamp == if_none_match:
            return Response(status_code=304, headers=self._headers)
        answer.headers["etag"] = stamp
        return answer

    async def compare(
        self,
        run: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
        over: CurveAxis = CurveAxis.UPDATES,
    ) -> Response:
        """Return the page of two to five runs side by side."""

        def make() -> str:
            check_number_of_runs(run)
            return self._pages.compare([self._info(name) for name in run], over)

        return await self._answered(make, self._comparing)


def add_pages(
    app: FastAPI, runs: RunListing, indexes: Path, pipelines: PipelineListing | None = None
) -> PageRoutes:
    """Add the pages to a service; `indexes` is the folder of index files."""
    pages = PageRoutes(runs, indexes, pipelines or NoPipelines())
    for path, page in (
        ("/", pages.all_runs),
        ("/runs/{name}", pages.one_run),
        ("/runs/{name}/live", pages.live_part),
        ("/runs/{name}/samples", pages.all_samples),
        ("/runs/{name}/sample", pages.one_sample),
        ("/runs/{name}/evaluations", pages.evaluations),
        ("/runs/{name}/evaluations/task", pages.turned),
        ("/runs/{name}/data", pages.data),
        ("/compare", pages.compare),
        ("/pipelines", pages.all_pipelines),
        ("/pipelines/{name}", pages.one_pipeline),
    ):
        app.router.add_api_route(
            path,
            page,
            methods=["GET", "HEAD"],
            include_in_schema=False,
            openapi_extra=_READ,
            route_class_override=page_route(pages.refuse),
        )
    return pages
