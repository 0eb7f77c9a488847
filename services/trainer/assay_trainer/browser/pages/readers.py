"""The runs that pages read, kept open between requests."""

import threading
from collections import OrderedDict
from pathlib import Path

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.opening import OpenedRun, open_for_reading

#: Their events are in memory: some MiB for a run of 1,000 steps.
_MOST_RUNS = 8


class RunReaders:
    """The runs read last, by folder. Threads may share it."""

    def __init__(self, indexes: Path) -> None:
        """Store the folder of index files."""
        self._indexes = indexes
        self._lock = threading.Lock()
        self._opened: OrderedDict[tuple[Path, int], OpenedRun] = OrderedDict()

    def get(self, folder: Path, name: str) -> OpenedRun:
        """Return a run by its folder, with its name for people.

        A folder that was made again has a new reader.

        Raises:
            OSError: the folder is gone.
        """
        key = (folder, folder.stat().st_ino)
        with self._lock:
            if key not in self._opened:
                self._opened[key] = open_for_reading(RunFolder(folder), self._indexes, name)
            self._opened.move_to_end(key)
            while len(self._opened) > _MOST_RUNS:
                self._opened.popitem(last=False)
            return self._opened[key]
