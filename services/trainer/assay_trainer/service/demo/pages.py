"""The demo's pages as texts: the panel, the account of its groups, and the chat."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import Task
from assay_shared.verdicts.fragment import verdict_style, verdict_tables
from assay_trainer.browser.facts.group_account import GroupAccount, group_account
from assay_trainer.browser.opening import OpenedRun, open_for_reading
from assay_trainer.browser.pages.places import ServicePlaces
from assay_trainer.browser.pages.rendering import PageTemplates
from assay_trainer.browser.samples.failed_groups import failed_groups
from assay_trainer.service.demo.kills import ProcessKill
from assay_trainer.service.demo.policies import MOST_CHARACTERS, AskedPolicy

_TEMPLATES = Path(__file__).parent / "templates"
#: Of an answer on the page.
_MOST_SHOWN = 4000
#: Groups with failed samples on the page.
_MOST_FAILED = 5
_READ_S = 0.05


@dataclass(frozen=True)
class _Lives:
    """The numbers that the page shows of its groups; `repeated` were trained on twice."""

    account: GroupAccount | None
    repeated: int


class DemoPages:
    """Makes the pages; each method reads files and is not for an event loop."""

    def __init__(self, run: Path, indexes: Path, token: str) -> None:
        """Store the places and the token that the page's own script sends."""
        self._run = run
        self._indexes = indexes
        self._token = token
        self._opened: OpenedRun | None = None
        self._templates = PageTemplates(
            _MOST_SHOWN,
            more=_TEMPLATES,
            style=verdict_style() + (_TEMPLATES / "demo.css").read_text(),
            script=(_TEMPLATES / "demo.js").read_text(),
        )

    @property
    def inline(self) -> str:
        """The constant style and script of both pages."""
        return self._templates.inline

    def panel(self, names: Sequence[str]) -> str:
        """Return the page with a button for each process."""
        return self._render("demo", names=names)

    def account(self, kills: Sequence[ProcessKill]) -> str:
        """Return the changing part: the account of all groups, the kills, the failed samples."""
        opened = self._read()
        lives = _Lives(None, 0)
        tables = ""
        if opened is not None:
            events = opened.events
            found = group_account(events.steps, events.grpo_resumed_at)
            lives = _Lives(found, opened.index.num_repeated())
            failed = failed_groups(opened.index, _MOST_FAILED)
            tables = verdict_tables(failed) if failed else ""
        return self._render("account", lives=lives, kills=kills, tables=tables)

    def chat(self, tasks: Sequence[Task], why_closed: str) -> str:
        """Return the page on which both policies are asked."""
        return self._render("chat", tasks=tasks, why_closed=why_closed, most=MOST_CHARACTERS)

    def answers(self, prompt: str, task: Task | None, asked: Sequence[AskedPolicy]) -> str:
        """Return the answers of both policies, side by side."""
        return self._render("answers", prompt=prompt, task=task, asked=asked)

    def _render(self, name: str, **values: object) -> str:
        places = ServicePlaces(self._run.name)
        return self._templates.render(name, places=places, token=self._token, **values)

    def _read(self) -> OpenedRun | None:
        """Return the run with new lines read; None before it exists."""
        if self._opened is None:
            if not (self._run / "config.json").is_file():
                return None
            self._opened = open_for_reading(RunFolder(self._run), self._indexes)
        self._opened.index.update(_READ_S)
        with self._opened.lock:
            self._opened.events.update()
        return self._opened
