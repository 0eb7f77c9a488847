"""The page of a run's data."""

from assay_shared.clients.trainer import RunInfo
from assay_trainer.browser.facts.run_data import run_data
from assay_trainer.browser.facts.task_counts import MOST_TASKS, TaskCounts
from assay_trainer.browser.opening import OpenedRun
from assay_trainer.browser.pages.places import ServicePlaces
from assay_trainer.browser.pages.rendering import PageTemplates

#: A page reads tasks this long, then shows what is counted.
_READ_S = 0.3
#: Rows of a table; the page says how many more there are.
_MOST_ROWS = 50
_MOST_LEAKS = 20


def data_page(templates: PageTemplates, run: RunInfo, opened: OpenedRun) -> str:
    """Return the page of a run's data: sets, tasks, mixtures, leaks and duplicates."""
    counts = counted_tasks(opened)
    with opened.lock:
        told = opened.events.data
        found = run_data(opened.folder, opened.config, opened.events, counts)
    return templates.render(
        "data",
        run_name=run.name,
        places=ServicePlaces(run.name),
        data=found,
        num_told=None if told is None else told.num_train + told.num_held_out,
        classes=sorted(counts.classes.items(), key=lambda one: (one[0].set != "training", -one[1])),
        set_sizes=counts.by_set(),
        most=_MOST_ROWS,
        most_leaks=_MOST_LEAKS,
        most_tasks=MOST_TASKS,
    )


def counted_tasks(opened: OpenedRun) -> TaskCounts:
    """Return the counts of a run's tasks, as far as a page's time allows."""
    with opened.lock:
        opened.events.update()
        told = opened.events.data
    return opened.tasks.update(opened.folder.tasks, told, _READ_S)
