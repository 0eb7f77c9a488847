"""Progress of a running pipeline: a status line in a terminal, dated lines in a file or pipe."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

_MAX_SHOWN = 100
#: Least time between two lines of a stage that are not shown in a terminal.
_EVERY_S = 30.0


@contextmanager
def shown_progress(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that shows the name of a stage and the last line of its log."""
    if not console.is_terminal:
        yield _Lines(console).show
        return
    with console.status("begins") as status:
        yield lambda name, line: status.update(f"{name}: {escape(line[:_MAX_SHOWN])}")


class _Lines:
    """Lines of progress: one when a stage begins, then one every `_EVERY_S`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage, self._shown = "", 0.0

    def show(self, name: str, line: str) -> None:
        now = time.monotonic()
        if name == self._stage and now - self._shown < _EVERY_S:
            return
        self._stage, self._shown = name, now
        told = f"{time.strftime('%H:%M:%S')} {name}: {line[:_MAX_SHOWN]}"
        self._console.print(told, soft_wrap=True, highlight=False, markup=False)
