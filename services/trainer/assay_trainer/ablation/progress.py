"""The progress of an ablation in a terminal: a bar for the run at work, a line for each event."""

from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from assay_shared.runs.run_folder import Event, RunStatus
from assay_shared.text.markdown import visible


class AblationView:
    """Shows events and the runs at work."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._runs: dict[Path, TaskID] = {}

    def __enter__(self) -> "AblationView":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def show(self, event: Event) -> None:
        """Print a line for an event."""
        told = ", ".join(f"{key} {value}" for key, value in event.data.items())
        text = visible(f"{event.kind.replace('_', ' ')}: {told}")
        self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show_progress(self, folder: Path, status: RunStatus) -> None:
        """Move the bar of a run."""
        if folder not in self._runs:
            self._runs[folder] = self._bars.add_task(folder.name, told="", total=None)
        total = status.num_steps or None
        told = f"{status.state}: {status.stage} {status.step}/{status.num_steps or '?'}"
        self._bars.update(self._runs[folder], completed=status.step, total=total, told=told)
        if status.state == "finished":
            self._bars.update(self._runs[folder], visible=False)
