"""The pages of the trainer service as texts, from a run's files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from assay_shared.clients.trainer import RunInfo
from assay_shared.errors import InvalidInput, NotFound
from assay_shared.types import Rollout
from assay_trainer.browser.facts.pipeline_facts import PipelineListing
from assay_trainer.browser.facts.summary import flat_config, read_config
from assay_trainer.browser.opening import OpenedRun
from assay_trainer.browser.pages.curves import curves, meters
from assay_trainer.browser.pages.data_page import counted_tasks, data_page
from assay_trainer.browser.pages.joint_curves import CurveAxis
from assay_trainer.browser.pages.pipeline_pages import PipelinePages
from assay_trainer.browser.pages.places import ServicePlaces
from assay_trainer.browser.pages.readers import RunReaders
from assay_trainer.browser.pages.rendering import PageTemplates
from assay_trainer.browser.pages.result_pages import ResultPages
from assay_trainer.browser.pages.run_list import RunColumn, RunRows
from assay_trainer.browser.reading.filters import SampleFilter
from assay_trainer.browser.reading.rows import GroupPage
from assay_trainer.browser.samples.detail import sample_detail
from assay_trainer.browser.samples.token_texts import TokenPiece, token_pieces

#: A page reads new lines this long, then shows what is read.
_READ_S = 0.05
_MOST_CHARACTERS = 50_000
MOST_TOKENS = 4000
_RUNS_PER_PAGE, _GROUPS_PER_PAGE = 100, 40
_LIVE_MS, _ENDED_MS = 2500, 30_000


@dataclass(frozen=True)
class LivePart:
    """The changing part of a run's page; `stamp` changes with it."""

    html: str
    stamp: str


class ServicePages:
    """Makes the pages; each method reads files and is not for an event loop."""

    def __init__(self, indexes: Path, pipelines: PipelineListing) -> None:
        """Store the folder of index files, outside of all runs' folders, and the pipelines."""
        self._readers = RunReaders(indexes)
        self._rows = RunRows()
        self._templates = PageTemplates(_MOST_CHARACTERS)
        self._results = ResultPages(self._templates)
        self.pipelines = PipelinePages(self._templates, pipelines)

    @property
    def inline(self) -> str:
        """The constant style and script of all pages."""
        return self._templates.inline

    def runs(self, runs: Sequence[RunInfo], searched: str, page: int, order: RunColumn) -> str:
        """Return the page of all runs, or of those with the words of a search."""
        found = self._rows.matching(runs, searched[:400], order)
        first = max(0, page) * _RUNS_PER_PAGE
        some = found[first : first + _RUNS_PER_PAGE]
        query = {"q": searched, "sort": order}
        return self._templates.render(
            "runs",
            q=searched,
            has_pipelines=self.pipelines.has_any(),
            number=len(found),
            order=order,
            columns=[(one, "/?" + urlencode(query | {"sort": one})) for one in RunColumn],
            rows=self._rows.rows(some),
            earlier=_page(query, page - 1) if page > 0 else "",
            later=_page(query, page + 1) if first + len(some) < len(found) else "",
        )

    def error(self, message: str) -> str:
        """Return a page in the place of one that cannot be shown."""
        return self._templates.render("error", message=message[:2000])

    def read(self, run: RunInfo) -> tuple[OpenedRun, int]:
        """Return a run with new lines read, as far as the time allows, and the bytes left.

        Raises:
            NotFound: its folder is gone.
        """
        try:
            opened = self._readers.get(Path(run.folder), run.name)
        except OSError:
            raise NotFound(f"run {run.name} is gone") from None
        return opened, opened.index.update(_READ_S).bytes_left

    def run(self, run: RunInfo) -> str:
        """Return the page of a run."""
        opened, _ = self.read(run)
        content, _ = read_config(opened.folder)
        is_live = run.status.state in ("created", "queued", "running")
        return self._templates.render(
            "run",
            **self._run_values(run, opened),
            settings=list(flat_config(content))[:2000],
            every_ms=_LIVE_MS if is_live else _ENDED_MS,
        )

    def live(self, run: RunInfo, known: str) -> LivePart | None:
        """Return the changing part of a run's page; None if its stamp is `known`."""
        opened, left = self.read(run)
        with opened.lock:
            opened.events.update()
        status = run.status
        state = f"{status.state} {status.stage} {status.step} {status.message}"
        number = opened.index.state().num_samples
        stamp = f'"{opened.events.position}-{number}-{left}-{hash(state) & 0xFFFFFFFF:x}"'
        if stamp == known:
            return None
        return LivePart(self._templates.render("run_parts", **self._run_values(run, opened)), stamp)

    def _run_values(self, run: RunInfo, opened: OpenedRun) -> dict[str, object]:
        with opened.lock:
            summary = opened.summary(run.status)
            moving, at_rest = meters(opened.events)
            return {
                "run": summary,
                "all_curves": curves(opened.events),
                "moving": moving,
                "at_rest": at_rest,
                "places": ServicePlaces(run.name),
            }

    def evaluations(self, run: RunInfo) -> str:
        """Return the page of a run's evaluations."""
        return self._results.evaluations(self.read(run)[0])

    def data(self, run: RunInfo) -> str:
        """Return the page of a run's data."""
        return data_page(self._templates, run, self.read(run)[0])

    def count_tasks(self, run: RunInfo) -> int:
        """Count further tasks of a run; return the bytes left of their file."""
        return counted_tasks(self.read(run)[0]).bytes_left

    def turned(self, run: RunInfo, set_name: str, task_id: str) -> str:
        """Return the page of a task before and after training.

        Raises:
            NotFound: it is not in both evaluations.
        """
        return self._results.turned(self.read(run)[0], set_name, task_id)

    def compare(self, runs: Sequence[RunInfo], axis: CurveAxis) -> str:
        """Return the page of runs side by side.

        Raises:
            NotFound: the folder of one is gone.
        """
        return self._results.compare(runs, [self.read(run)[0] for run in runs], axis)

    def samples(self, run: RunInfo, given: dict[str, str], after: str) -> tuple[str, bool]:
        """Return the page of groups and samples, and False if the filter cannot be used."""
        opened, left = self.read(run)
        error, found = "", SampleFilter()
        page, number = GroupPage((), ""), 0
        try:
            found = SampleFilter(**given)
            page = opened.index.page(found, _GROUPS_PER_PAGE, after)
            number = opened.index.count(found)
        except InvalidInput as refused:
            error = str(refused)
        summary = opened.index.counts()
        outcomes = {f"{out}:{fail}" if fail else out for _, out, fail in summary}
        html = self._templates.render(
            "samples",
            run_name=run.name,
            places=ServicePlaces(run.name),
            given=found,
            page=page,
            number=number,
            is_later=bool(after),
            error=error,
            bytes_left=left,
            problems=opened.index.problems(),
            outcomes=sorted(
                outcomes | ({"failed"} if any(":" in one for one in outcomes) else set())
            ),
            reasons=sorted({reason for reason, _, _ in summary if reason}),
            components=opened.index.part_names(),
            steps=opened.index.steps() or (1, 1),
        )
        return html, not error

    def sample(
        self, run: RunInfo, key: str, place: int, given: dict[str, str], at: str = ""
    ) -> str:
        """Return the page of a sample.

        Raises:
            NotFound: there is no such sample.
            DatasetError: its line is damaged.
            InvalidInput: the filter cannot be used.
        """
        opened, _ = self.read(run)
        found = SampleFilter(**given)
        group_id = opened.index.find(key, at)
        one = sample_detail(opened.index, opened.config, group_id, place)
        before, after = opened.index.neighbours(found, group_id, place)
        tokens, why_none = _tokens(opened, one.rollout)
        return self._templates.render(
            "sample",
            run_name=run.name,
            places=ServicePlaces(run.name),
            given=found,
            one=one,
            row=opened.index.row(group_id),
            before=before,
            after=after,
            tokens=tokens,
            why_no_tokens=why_none,
            num_tokens=MOST_TOKENS,
        )


def _tokens(opened: OpenedRun, rollout: Rollout | None) -> tuple[list[TokenPiece], str]:
    if rollout is None:
        return [], ""
    return token_pieces(opened.folder.path, rollout, MOST_TOKENS)


def _page(query: dict[str, str], number: int) -> str:
    return "/?" + urlencode({**query, "page": number})
