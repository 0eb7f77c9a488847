"""The files of a finished stage with their digests, and a later check of them."""

import json
from collections.abc import Iterator
from pathlib import Path

from assay_shared.runs.run_folder import write_json
from assay_shared.weights.checkpoint import file_digest
from assay_trainer.pipelines.stage_folder import StageFolder

_FILE = "outputs.json"
#: Folders of a run that are not its result: points to resume from, weights of each step, curves.
_PASSING = {"checkpoints", "policy", "tensorboard", "failures"}
_MOST_SHOWN = 5


def record_outputs(folder: StageFolder) -> None:
    """Write the SHA-256 of each file of a stage's output."""
    found = {name: file_digest(file) for name, file in _files(folder.output)}
    write_json(folder.path / _FILE, dict(found))


def outputs_of(folder: StageFolder) -> dict[str, str]:
    """Return the SHA-256 of each file as it was written; empty if unknown."""
    file = folder.path / _FILE
    found: dict[str, str] = json.loads(file.read_bytes()) if file.exists() else {}
    return found


def changed_outputs(folder: StageFolder) -> list[str]:
    """Return the differences to the files as they were written: changed, missing and new ones."""
    known, there = outputs_of(folder), dict(_files(folder.output))
    found = [f"{name} is missing" for name in known if name not in there]
    found += [f"{name} is new" for name in there if name not in known]
    same = [name for name in known if name in there]
    return found + [f"{name} differs" for name in same if file_digest(there[name]) != known[name]]


def told(differences: list[str]) -> str:
    """Return the first differences in words."""
    more = len(differences) - _MOST_SHOWN
    return "; ".join(differences[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _files(output: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(output.rglob("*")):
        place = file.relative_to(output)
        hidden = any(part.startswith(".") for part in place.parts)
        if (
            file.is_file()
            and not file.is_symlink()
            and not hidden
            and place.parts[0] not in _PASSING
        ):
            yield place.as_posix(), file
