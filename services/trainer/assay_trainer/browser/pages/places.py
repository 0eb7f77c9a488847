"""Where the pages link to: the addresses of the service, or places inside of one file."""

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, urlencode

from assay_trainer.browser.reading.filters import SampleFilter


class PagePlaces(Protocol):
    """Makes the links of a run's pages; an empty link is not shown."""

    #: Whether pages can be filtered and refreshed.
    is_live: bool

    def runs(self) -> str:
        """Return the link to all runs."""

    def run(self) -> str:
        """Return the link to the run."""

    def samples(self, query: str = "") -> str:
        """Return the link to the samples of a filter's query."""

    def evaluations(self) -> str:
        """Return the link to the run's evaluations."""

    def turned(self, set_name: str, task_id: str) -> str:
        """Return the link to a task before and after training."""

    def sample(self, key: str, place: int, given: SampleFilter | None = None, at: str = "") -> str:
        """Return the link to a sample; `given` is the filter to move within."""


@dataclass(frozen=True)
class ServicePlaces:
    """Addresses of the trainer service."""

    name: str
    is_live: bool = True

    def runs(self) -> str:
        return "/"

    def run(self) -> str:
        return f"/runs/{quote(self.name)}"

    def samples(self, query: str = "") -> str:
        return f"{self.run()}/samples{f'?{query}' if query else ''}"

    def data(self) -> str:
        """Return the link to the run's data."""
        return f"{self.run()}/data"

    def domain(self, name: str) -> str:
        """Return the link to the samples of a domain's tasks."""
        return self.samples(urlencode({"tag": f"domain:{name}"}))

    def evaluations(self) -> str:
        return f"{self.run()}/evaluations"

    def turned(self, set_name: str, task_id: str) -> str:
        return f"{self.evaluations()}/task?{urlencode({'set': set_name, 'task': task_id})}"

    def sample(self, key: str, place: int, given: SampleFilter | None = None, at: str = "") -> str:
        query = urlencode({"group": key, "place": place} | ({"at": at} if at else {}))
        rest = given.query() if given is not None else ""
        return f"{self.run()}/sample?{query}{f'&{rest}' if rest else ''}"


@dataclass(frozen=True)
class PipelinePlaces:
    """Addresses of a pipeline in the trainer service."""

    name: str

    def runs(self) -> str:
        return "/"

    def pipelines(self) -> str:
        """Return the link to all pipelines."""
        return "/pipelines"

    def pipeline(self) -> str:
        """Return the link to the pipeline."""
        return f"{self.pipelines()}/{quote(self.name)}"

    def part(self) -> str:
        """Return the address of the page's changing part."""
        return f"{self.pipeline()}?part=true"


@dataclass
class FilePlaces:
    """Places inside of one file.

    `shown` has its samples by `at`, key and place; `flipped` its turned tasks by set and id.
    """

    is_live: bool = False
    shown: dict[tuple[str, str, int], str] = field(default_factory=dict)
    flipped: dict[tuple[str, str], str] = field(default_factory=dict)

    def runs(self) -> str:
        return ""

    def run(self) -> str:
        return "#run"

    def samples(self, query: str = "") -> str:
        return "" if query else "#samples"

    def evaluations(self) -> str:
        return "#comparison"

    def turned(self, set_name: str, task_id: str) -> str:
        anchor = self.flipped.get((set_name, task_id), "")
        return f"#{anchor}" if anchor else ""

    def sample(self, key: str, place: int, given: SampleFilter | None = None, at: str = "") -> str:
        anchor = self.shown.get((at, key, place), "")
        return f"#{anchor}" if anchor else ""
