"""The files of a finished stage with their digests, and a later check of them."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from assay_shared.errors import Conflict, DatasetError
from assay_shared.runs.run_folder import write_json
from assay_shared.types.wire import Wire
from assay_shared.weights.checkpoint import file_digest
from assay_trainer.pipelines.stage_folder import StageFolder

_FILE = "outputs.json"
#: Folders of a run that are not its result: points to resume from, weights of each step, curves.
_PASSING = {"checkpoints", "policy", "tensorboard", "failures"}
_MOST_SHOWN = 5


class OutputFile(Wire):
    """A file as a stage left it; size and time tell cheaply that nobody wrote to it since."""

    sha256: str
    num_bytes: int
    mtime_ns: int


_OUTPUTS = TypeAdapter(dict[str, OutputFile])


def record_outputs(folder: StageFolder) -> None:
    """Write digest, size and time of each file of a stage's output."""
    _write(folder, {name: _recorded(file) for name, file in _files(folder.output)})


def outputs_of(folder: StageFolder) -> dict[str, str]:
    """Return the SHA-256 of each file as it was written; empty if unknown.

    Raises:
        DatasetError: outputs.json is not as it was written.
    """
    return {name: one.sha256 for name, one in _stored(folder).items()}


def check_unchanged(folder: StageFolder) -> None:
    """Check that the files of a finished stage are those that it wrote, before others read them.

    A file with its old size and time is taken as it is: weights are not read again. New files
    are allowed: a person may write notes.

    Raises:
        Conflict: files are missing, or have another content; names stage and files.
        DatasetError: outputs.json is not as it was written.
    """
    known, differences = _stored(folder), []
    again = dict(known)
    for name, one in known.items():
        file = folder.output / name
        if not file.is_file():
            differences.append(f"{name} is missing")
        elif _stamp(file) != (one.num_bytes, one.mtime_ns):
            again[name] = _recorded(file)
            if again[name].sha256 != one.sha256:
                differences.append(f"{name} differs")
    if differences:
        raise Conflict(
            f"files of {folder.name} are not those that it wrote: {told(differences)}",
            hint=f"restore them in {folder.output}, or delete {folder.path}: then the same command "
            f"does {folder.name} again",
        )
    if again != known:  # the same files, copied or touched: the next check is cheap
        _write(folder, again)


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


def _stored(folder: StageFolder) -> dict[str, OutputFile]:
    file = folder.path / _FILE
    try:
        return _OUTPUTS.validate_json(file.read_bytes()) if file.exists() else {}
    except ValidationError:
        raise DatasetError(f"{file} is not as it was written") from None


def _write(folder: StageFolder, files: dict[str, OutputFile]) -> None:
    values = {name: one.model_dump(mode="json") for name, one in files.items()}
    write_json(folder.path / _FILE, values)


def _recorded(file: Path) -> OutputFile:
    num_bytes, mtime_ns = _stamp(file)
    return OutputFile(sha256=file_digest(file), num_bytes=num_bytes, mtime_ns=mtime_ns)


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


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
