"""The folder in which an import works, which becomes the output when it is complete."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay_shared.errors import Conflict


@contextmanager
def partial_folder(output: Path) -> Iterator[Path]:
    """Yield an empty folder for this process alone, and rename it to `output` at the end.

    After an error it stays with what was written; the next import empties it.

    Raises:
        Conflict: the output is there already, or another import writes it.
    """
    _refuse_existing(output)
    partial = output.with_name(f".{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    opened = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(opened, partial, output)
        _refuse_existing(output)
        for one in partial.iterdir():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one)
            else:
                one.unlink()
        yield partial
        if output.exists():
            output.rmdir()
        partial.rename(output)
    finally:
        os.close(opened)


def _lock(opened: int, partial: Path, output: Path) -> None:
    """Lock the folder until its descriptor is closed, also by the end of this process."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(opened), partial.stat())
    except (BlockingIOError, FileNotFoundError):
        is_ours = False
    if not is_ours:
        raise Conflict(f"another import writes {output}", field="--output")


def _refuse_existing(output: Path) -> None:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise Conflict(f"{output} exists and is not empty", field="--output")
