"""The files that an import reads: a file, the files of a split in a folder or on a hub."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from assay_shared.errors import DatasetError
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_trainer.curation.order import HUB, ImportOrder
from assay_trainer.data.governance.manifest import LEFT_OUT, MANIFEST, checked_rows
from assay_trainer.data.hub_files import download_split, splits_by_name
from assay_trainer.data.importers.format import PublishedFormat, RowKind
from assay_trainer.data.importers.own_tasks import ALL, OR_DEBUG
from assay_trainer.data.rows import ENDINGS
from assay_trainer.hub import resolve
from assay_trainer.table_source import HubFiles

_PUBLISHED, _TASKS = "dataset.json", "tasks.jsonl"
_CONVERT_TIMEOUT_S = 3600.0
_MAX_SHOWN = 500
_SHARD = re.compile(r"(.*)-(\d{3,6})-of-(\d{3,6})[^/]*")
_MAX_MISSING = 5


@dataclass(frozen=True)
class Found:
    """Files to read, with the name of their source, its revision, and their split."""

    files: list[Path]
    source: str
    revision: str | None
    split: str
    #: Other files of the folder.
    not_read: tuple[str, ...] = ()


@contextmanager
def found_files(order: ImportOrder) -> Iterator[Found]:
    """Find the files of an order; a converted benchmark lies there until the block ends.

    Raises:
        DatasetError: there are none, or several splits to choose from.
        AssayError: the hub has no such dataset, or cannot be reached.
    """
    if order.source.startswith(HUB):
        yield _on_hub(order)
        return
    path = Path(order.source)
    if not path.exists():
        raise DatasetError(f"there is no file or folder {path}", field="PATH")
    if order.format is OR_DEBUG:
        with TemporaryFolder("assay-or-debug-") as folder:
            yield _of_benchmark(path, order.split or ALL, folder / "converted")
        return
    yield _local(path, order.format, order.split)


def _on_hub(order: ImportOrder) -> Found:
    name = order.source.removeprefix(HUB)
    split = order.split or _only_split(order.format)
    source = HubFiles(
        kind="hub", name=name, config=order.config, split=split, revision=order.revision
    )
    repository = resolve("dataset", name, order.revision)
    files = download_split(source, repository)
    check_shards([path.name for path in files])
    return Found(files, name, repository.revision, _known(order.format, split))


def _local(path: Path, wanted: PublishedFormat, split: str | None) -> Found:
    if path.is_file():
        by_name = splits_by_name([path.name])
        told = next(iter(by_name)) if _tells_split(path.name) else None
        if ALL in wanted.roles:
            told = ALL
        chosen = split or (told if told and _is_known(wanted, told) else _only_split(wanted))
        return Found([path], plain_name(path.name), None, _known(wanted, chosen))
    if (path / MANIFEST).exists() and (path / LEFT_OUT).exists():
        return _imported(path, wanted, split)
    everything = sorted(str(one.relative_to(path)) for one in path.rglob("*") if not one.is_dir())
    tables = [
        name for name in everything if (path / name).is_file() and name.lower().endswith(ENDINGS)
    ]
    if not tables:
        raise DatasetError(f"{path} has no file that ends with {', '.join(ENDINGS)}", field="PATH")
    if ALL in wanted.roles:
        names = [name for name in tables if not split or _is_of(name, split)] or tables
        return _found(path, names, everything, _known(wanted, split or ALL))
    splits: dict[str, list[str]] = {}
    for told, files in splits_by_name(tables).items():
        splits.setdefault(wanted.same_split.get(told, told), []).extend(files)
    chosen = _known(wanted, split or (next(iter(splits)) if len(splits) == 1 else _ask(splits)))
    if chosen not in splits and len(splits) == 1 and len(tables) == 1:
        splits = {chosen: tables}
    if chosen not in splits:
        raise DatasetError(
            f"no file in {path} is of split {chosen} by its name. There are: "
            f"{', '.join(sorted(splits))}",
            field="--split",
        )
    return _found(path, splits[chosen], everything, chosen)


def _is_of(name: str, split: str) -> bool:
    """Return True if a file's name tells no split, or this one."""
    return not _tells_split(name) or split in splits_by_name([name])


def _found(path: Path, names: Iterable[str], everything: Iterable[str], split: str) -> Found:
    """Return files of a folder, and the names of the others.

    Raises:
        DatasetError: one of several parts is missing.
    """
    chosen = sorted(names)
    check_shards(chosen)
    not_read = tuple(plain_name(name) for name in everything if name not in chosen)
    return Found([path / name for name in chosen], plain_name(path.name), None, split, not_read)


def _imported(path: Path, wanted: PublishedFormat, split: str | None) -> Found:
    """Return the rows of an imported folder.

    Raises:
        DatasetError: the format is not Assay's own, or the folder was changed.
    """
    manifest, rows = checked_rows(path)
    if ALL not in wanted.roles or manifest.kind is RowKind.PREFERENCES:
        raise DatasetError(
            f"{path} is an imported folder of {manifest.kind}, not {wanted.name}",
            field="FORMAT",
            hint="tasks and demonstrations are of format tasks; `assay data mix` mixes folders",
        )
    return Found([rows], path.name, None, _known(wanted, split or ALL))


def check_shards(names: Iterable[str]) -> None:
    """Check that each set of files with names such as x-00000-of-00003 is complete.

    Raises:
        DatasetError: a file is missing.
    """
    found: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if shard := _SHARD.fullmatch(name):
            found.setdefault((shard[1], shard[3]), set()).add(int(shard[2]))
    for (stem, total), numbers in found.items():
        first = 0 if 0 in numbers else 1
        missing = sorted(set(range(first, first + int(total))) - numbers)
        if missing:
            width = len(total)
            shown = ", ".join(f"{stem}-{one:0{width}}-of-{total}" for one in missing[:_MAX_MISSING])
            raise DatasetError(
                f"{len(missing)} of {int(total)} files are missing or cannot be read: {shown}",
                field="PATH",
                hint=f"files end with {', '.join(ENDINGS)}",
            )


def _tells_split(name: str) -> bool:
    """Return True if a file's name has the name of a split in it."""
    return splits_by_name([name]) != {"train": [name]} or "train" in name.lower()


def plain_name(name: str) -> str:
    """Return a file's name as Unicode text: bytes of another encoding as escapes."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _is_known(wanted: PublishedFormat, split: str) -> bool:
    return wanted.same_split.get(split, split) in wanted.roles


def _known(wanted: PublishedFormat, split: str) -> str:
    split = wanted.same_split.get(split, split)
    wanted.role_of(split)
    return split


def _only_split(wanted: PublishedFormat) -> str:
    if len(set(wanted.roles.values())) == 1 or ALL in wanted.roles:
        return next(iter(wanted.roles))
    return _ask(wanted.roles)


def _ask(splits: Iterable[str]) -> NoReturn:
    names = ", ".join(splits)
    raise DatasetError(f"which split? There are: {names}", field="--split")


def _of_benchmark(path: Path, split: str, converted: Path) -> Found:
    """Return the tasks of a benchmark; a published one is converted by `assay or-debug import`."""
    folder = path
    if (path / _PUBLISHED).exists() and not (path / _TASKS).exists():
        role = "split" if split == ALL else split
        _convert(path, converted, role)
        folder = converted
    files = [path] if path.is_file() else sorted(folder.rglob(_TASKS))
    if not files:
        raise DatasetError(f"{path} has neither {_TASKS} nor {_PUBLISHED} in it", field="PATH")
    return Found(files, path.name, None, _known(OR_DEBUG, split))


def _convert(path: Path, output: Path, role: str) -> None:
    command = [sys.executable, "-m", "assay_shared.cli", "or-debug", "import"]
    command += [str(path), "--output", str(output), "--role", role]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_CONVERT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DatasetError(f"{path} was not converted in {_CONVERT_TIMEOUT_S:g} s") from None
    if ended.returncode:
        told = " ".join((ended.stderr or ended.stdout).split())[-_MAX_SHOWN:]
        raise DatasetError(f"`assay or-debug import` refuses {path}: {told}", field="PATH")
