"""The pages of results: a run's evaluations, a task before and after, and runs side by side."""

from collections.abc import Sequence
from urllib.parse import urlencode

from assay_shared.clients.trainer import RunInfo
from assay_trainer.browser.facts.differing import differing_settings
from assay_trainer.browser.facts.evaluated import EvaluationReader, turned_task
from assay_trainer.browser.opening import OpenedRun
from assay_trainer.browser.pages.joint_curves import CurveAxis, joint_charts
from assay_trainer.browser.pages.places import ServicePlaces
from assay_trainer.browser.pages.rendering import PageTemplates


class ResultPages:
    """Makes the pages; each method reads files and is not for an event loop."""

    def __init__(self, templates: PageTemplates) -> None:
        self._templates = templates
        self._evaluations = EvaluationReader()

    def evaluations(self, opened: OpenedRun) -> str:
        """Return the page of a run's evaluations before and after training."""
        return self._templates.render(
            "evaluations",
            run_name=opened.name,
            places=ServicePlaces(opened.name),
            paired=self._evaluations.of_run(opened.folder),
        )

    def turned(self, opened: OpenedRun, set_name: str, task_id: str) -> str:
        """Return the page of a task before and after training.

        Raises:
            NotFound: it is not in both evaluations.
        """
        found = turned_task(self._evaluations.of_run(opened.folder), set_name, task_id)
        return self._templates.render(
            "turned", run_name=opened.name, places=ServicePlaces(opened.name), turned=found
        )

    def compare(self, runs: Sequence[RunInfo], opened: Sequence[OpenedRun], axis: CurveAxis) -> str:
        """Return the page of two to five runs side by side."""
        for one in opened:
            with one.lock:
                one.events.update()
        folders = [one.folder for one in opened]
        names = [("run", one.name) for one in runs]
        return self._templates.render(
            "compare",
            runs=[(run, ServicePlaces(run.name)) for run in runs],
            axis=axis,
            axes=[(one, "/compare?" + urlencode([*names, ("over", one)])) for one in CurveAxis],
            charts=joint_charts([one.events for one in opened], axis),
            settings=differing_settings(folders),
            paired=self._evaluations.of_runs(folders),
        )
