"""Checkpoints to resume from: weights, optimiser, the batcher's state and all digests.

A damaged checkpoint is refused and set aside, and the one before is used.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from assay_shared.errors import WeightsRefused
from assay_shared.runs.run_folder import write_json
from assay_shared.weights.checkpoint import file_digest, flush
from assay_trainer.curriculum.state import BatcherState, CurriculumState

#: Written after everything else, so a folder that has it was written to its end.
_STATE = "assay.json"
_REFUSED = "refused-"
#: Ends the name of a file next to a folder, with the folder's digests.
_SEAL = ".sha256.json"
_MAX_THREADS = 8
_DIGESTS = TypeAdapter(dict[str, str])
OnRefused = Callable[[Path, str], None]


class _Facts(BaseModel):
    """The content of assay.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pass_rate: float | None
    next_draw: int = 0
    unfinished: tuple[int, ...] = ()
    #: Of a curriculum.
    order: CurriculumState | None = None
    #: SHA-256 of every other file, by its path from the folder.
    files: dict[str, str]
    #: SHA-256 of the fields above.
    digest: str

    @property
    def own_digest(self) -> str:
        return _digest_of(self.model_dump(mode="json", exclude={"digest"}))


def folder_of(checkpoints: Path, step: int) -> Path:
    """Return the folder of the checkpoint of `step`."""
    return checkpoints / f"checkpoint-{step}"


def complete(
    checkpoints: Path,
    step: int,
    state: BatcherState | None = None,
    pass_rate: float | None = None,
) -> None:
    """Mark the checkpoint of `step` as whole, once the disk has all its files.

    `pass_rate` covers the steps since the last checkpoint.
    """
    folder, state = folder_of(checkpoints, step), state or BatcherState()
    for path in [*folder.rglob("*"), folder, folder.parent]:
        flush(path)
    value: dict[str, object] = {
        "pass_rate": pass_rate,
        "next_draw": state.next_draw,
        "unfinished": state.unfinished,
        "order": None if state.order is None else state.order.model_dump(mode="json"),
        "files": file_digests(folder),
    }
    write_json(folder / _STATE, value | {"digest": _digest_of(value)})
    flush(folder)


def whole(checkpoints: Path) -> list[Path]:
    """Return the folders of all complete checkpoints, oldest first."""
    return sorted((file.parent for file in checkpoints.glob(f"checkpoint-*/{_STATE}")), key=step_of)


def best(checkpoints: Path) -> Path | None:
    """Return the complete checkpoint with the highest pass rate; the newest among equals."""
    rated = [
        (rate, step_of(f), f) for f in whole(checkpoints) if (rate := _pass_rate(f)) is not None
    ]
    return max(rated)[2] if rated else None


def _pass_rate(folder: Path) -> float | None:
    try:
        return _facts(folder).pass_rate
    except WeightsRefused:
        return None


def newest(checkpoints: Path) -> tuple[Path, BatcherState] | None:
    """Return the newest undamaged checkpoint and the batcher's state in it; None without any."""
    for folder in reversed(whole(checkpoints)):
        try:
            return folder, check(folder)
        except WeightsRefused:
            continue
    return None


def take_newest(checkpoints: Path, on_refused: OnRefused) -> tuple[Path, BatcherState] | None:
    """Return the newest undamaged checkpoint; None before the stage's first checkpoint.

    Damaged newer checkpoints are renamed to `refused-N`: no resume reads them, and the deletion of
    old checkpoints does not count them. `on_refused` gets their new path and the reason.

    Raises:
        WeightsRefused: there are checkpoints, and all are damaged.
    """
    found = whole(checkpoints)
    reason = ""
    for folder in reversed(found):
        try:
            return folder, check(folder)
        except WeightsRefused as error:
            reason = str(error)
            on_refused(_set_aside(folder), reason)
    if found or any(checkpoints.glob(f"{_REFUSED}*")):
        detail = reason or "all were refused before"
        raise WeightsRefused(
            f"none of the checkpoints in {checkpoints} is what was written: {detail}",
            hint="restore the run from a backup, or delete that folder to begin the stage again",
        )
    return None


def check(folder: Path) -> BatcherState:
    """Compare all files with their digests and return the batcher's state.

    Raises:
        WeightsRefused: a file is missing, changed or extra; names it.
    """
    facts = _facts(folder)
    try:
        seen = file_digests(folder)
    except OSError as error:
        raise WeightsRefused(f"{folder.name} cannot be read: {error}") from None
    refuse_difference(folder, facts.files, seen)
    return BatcherState(facts.next_draw, facts.unfinished, facts.order)


def file_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a checkpoint by its path, except the marker file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [str(path.relative_to(folder)) for path in files]
    with ThreadPoolExecutor(_MAX_THREADS, "digest") as pool:
        digests = dict(zip(names, pool.map(file_digest, files), strict=True))
    return {name: one for name, one in digests.items() if not _is_own(name)}


def refuse_difference(folder: Path, written: Mapping[str, str], seen: Mapping[str, str]) -> None:
    """Compare the digests written with the digests seen.

    Raises:
        WeightsRefused: the files of `folder` differ; names the first.
    """
    for name in sorted({*written, *seen}):
        if name not in seen:
            raise WeightsRefused(f"{folder.name}: {name} is missing")
        if name not in written:
            raise WeightsRefused(f"{folder.name}: {name} was added")
        if written[name] != seen[name]:
            raise WeightsRefused(f"{folder.name}: {name} is not what was written")


def seal(folder: Path) -> None:
    """Write the digests of a complete folder next to it."""
    write_json(_seal_of(folder), file_digests(folder))


def is_sealed(folder: Path) -> bool:
    """Return True if the folder is complete."""
    return folder.is_dir() and _seal_of(folder).is_file()


def check_seal(folder: Path) -> None:
    """Compare a sealed folder with its digests.

    Raises:
        WeightsRefused: a file differs; names it.
    """
    try:
        written = _DIGESTS.validate_json(_seal_of(folder).read_bytes())
        refuse_difference(folder, written, file_digests(folder))
    except (OSError, ValidationError) as error:
        raise WeightsRefused(f"{folder} cannot be read: {error}") from None
    except WeightsRefused as error:
        hint = f"restore it; or delete {folder}: an unfinished run makes it again when resumed"
        raise WeightsRefused(error.message, hint=hint) from None


def check_if_sealed(folder: Path) -> None:
    """Compare a stage's model with its digests; any other folder has none.

    Raises:
        WeightsRefused: a file differs; names it.
    """
    if is_sealed(folder):
        check_seal(folder)


def sealed_files(models: Path) -> dict[str, Path]:
    """Return the files of sealed folders in `models` by their SHA-256; a damaged seal has none."""
    found: dict[str, Path] = {}
    for seal in models.glob(f"*{_SEAL}"):
        folder = seal.with_name(seal.name.removesuffix(_SEAL))
        with suppress(OSError, ValidationError):
            written = _DIGESTS.validate_json(seal.read_bytes())
            found |= {digest: folder / name for name, digest in written.items()}
    return found


def _seal_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_SEAL}")


def step_of(folder: Path) -> int:
    """Return the number of steps done at the checkpoint."""
    return int(folder.name.rpartition("-")[2])


def refused(checkpoints: Path) -> list[Path]:
    """Return the folders of refused checkpoints."""
    return sorted(checkpoints.glob(f"{_REFUSED}*"))


def _set_aside(folder: Path) -> Path:
    aside = folder.with_name(f"{_REFUSED}{step_of(folder)}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    return aside


def _facts(folder: Path) -> _Facts:
    try:
        facts = _Facts.model_validate_json((folder / _STATE).read_bytes())
    except ValidationError as error:
        reason = error.errors(include_input=False)[0]["msg"]
        raise WeightsRefused(f"{folder.name}: {_STATE} cannot be read: {reason}") from None
    except OSError as error:
        raise WeightsRefused(f"{folder.name}: {_STATE} cannot be read: {error}") from None
    if facts.digest != facts.own_digest:
        raise WeightsRefused(f"{folder.name}: {_STATE} is not what was written")
    return facts


def _digest_of(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _is_own(name: str) -> bool:
    return name in (_STATE, f".{_STATE}.partial")
