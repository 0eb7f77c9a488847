"""The pages of pipelines: all of them, and one with its stages."""

import time

from assay_shared.clients.trainer import RunInfo
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.facts.pipeline_facts import (
    STAGE_MARK,
    PipelineHead,
    PipelineListing,
)
from assay_trainer.browser.opening import status_of
from assay_trainer.browser.pages.places import PipelinePlaces, ServicePlaces
from assay_trainer.browser.pages.rendering import PageTemplates

#: Pipelines of a page, and rows of a table; the page says how many more there are.
_MOST_PIPELINES, _MOST_ROWS = 200, 200
_LIVE_MS, _ENDED_MS = 2500, 30_000


class PipelinePages:
    """Makes the pages; each method reads files and is not for an event loop."""

    def __init__(self, templates: PageTemplates, listing: PipelineListing) -> None:
        self._templates, self._listing = templates, listing

    def has_any(self) -> bool:
        """Return True if there is a pipeline."""
        return not self._listing.is_empty()

    def all(self) -> str:
        """Return the page of all pipelines."""
        heads = self._listing.heads()
        rows = [
            (one, "" if one.why_no_link else PipelinePlaces(one.name).pipeline(), _changed(one))
            for one in heads[:_MOST_PIPELINES]
        ]
        return self._templates.render("pipelines", rows=rows, num_left=len(heads) - len(rows))

    def one(self, name: str, *, is_part: bool = False) -> str:
        """Return the page of a pipeline, or its changing part alone.

        Raises:
            NotFound: there is no such pipeline.
            AssayError: its pipeline.json cannot be read.
        """
        found = self._listing.facts(name)
        return self._templates.render(
            "pipeline_parts" if is_part else "pipeline",
            pipeline=found,
            places=PipelinePlaces(name),
            run_link=lambda run: ServicePlaces(run).run(),
            longest=max((one.seconds or 0.0 for one in found.stages), default=0.0),
            dearest=max((one.money or 0.0 for one in found.stages), default=0.0),
            most=_MOST_ROWS,
            every_ms=_LIVE_MS if found.owner else _ENDED_MS,
        )

    def run_of(self, name: str) -> RunInfo | None:
        """Return the run of a stage, by the name PIPELINE~STAGE; None for other names.

        Raises:
            NotFound: there is no such run.
        """
        pipeline, mark, stage = name.partition(STAGE_MARK)
        if not mark:
            return None
        folder = self._listing.run_folder(pipeline, stage)
        return RunInfo(name=name, folder=str(folder), status=status_of(RunFolder(folder)))


def _changed(head: PipelineHead) -> str:
    if not head.changed:
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(head.changed))
