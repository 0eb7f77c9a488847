"""A mesh of processes that only sleep: killed for real, and started again."""

import subprocess
from pathlib import Path

from assay_shared.errors import NotFound

NAMES = ("sandbox", "trainer", "worker-1")


class PlantedMesh:
    """Processes by name; `restart` starts those that ended, as a launcher does."""

    def __init__(self, home: Path, urls: dict[str, str] | None = None) -> None:
        self.home = home
        self.urls = urls or {}
        self.children = {name: _sleeping() for name in NAMES}

    @property
    def processes(self) -> dict[str, int]:
        return {name: child.pid for name, child in self.children.items()}

    def crash_part(self, name: str) -> int:
        child = self.children[name]
        if child.poll() is not None:
            raise NotFound(f"no process {name} runs")
        child.kill()
        return child.pid

    def restart(self) -> None:
        for name, child in self.children.items():
            if child.poll() is not None:
                self.children[name] = _sleeping()

    def close(self) -> None:
        for child in self.children.values():
            child.kill()
            child.wait()


def _sleeping() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "600"])
