"""Checkpoint folders: written fully before they get their name, and identified by a digest of every
file with an effect on outputs."""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from assay_shared.errors import WeightsRefused

#: The files of a LoRA adapter, as peft writes them.
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
#: A checkpoint's weights, and the index of weights in several files.
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
#: As well as the weights: configurations, vocabularies, merges and templates.
_DECIDING = ("*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja", "*/*.jinja")
#: The account of a hand-off: it names the digest of its folder, and has no effect on outputs.
_ACCOUNT = "handoff.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_PLAIN_WEIGHTS = re.compile(r"[^/\\\0]+\.safetensors")
_CONVERT = "pickles are not read: `assay inference convert` makes safetensors of them"
#: An index has some 100 bytes for each tensor.
_MAX_INDEX_BYTES = 64 * 2**20
_MAX_THREADS = 32


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files with a checkpoint's weights, sorted by name.

    These are the files in its index; without an index, model.safetensors. No engine reads any other
    file as weights, so an ambiguous folder is refused.

    Raises:
        WeightsRefused: the folder is missing, has no config.json, has no such file, or has further
            safetensors files that could be read as weights.
    """
    if not folder.is_dir():
        raise WeightsRefused(f"there is no checkpoint folder {folder}")
    refuse_devices(folder)
    if not (folder / "config.json").is_file():
        raise WeightsRefused(
            f"{folder} is not a checkpoint: it has no config.json",
            hint="it needs config.json and *.safetensors",
        )
    found = {file.name for file in folder.glob("*.safetensors")}
    if (folder / INDEX).is_file():
        used = _indexed(folder / INDEX)
        unused = found & {WEIGHTS} - used
    else:
        used, unused = {WEIGHTS}, found - {WEIGHTS}
    if missing := sorted(used - found):
        raise WeightsRefused(
            f"{folder} is not a checkpoint: it has no {missing[0]}",
            hint=_CONVERT if _has_pickle(folder) else "it needs config.json and *.safetensors",
        )
    if unused:
        raise WeightsRefused(
            f"{folder} has ambiguous weights: {min(unused)} is not in an index",
            hint=f"keep {WEIGHTS} alone, or name every file in {INDEX}",
        )
    return sorted(folder / name for name in used)


def refuse_devices(folder: Path) -> None:
    """Refuse a folder with a pipe, a socket or a device: reading it could take for ever."""
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):  # a link to nothing
            kind = entry.stat().st_mode
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                raise WeightsRefused(f"{entry} is not a regular file")


def _indexed(index: Path) -> set[str]:
    """Return the names of the files in an index.

    Raises:
        WeightsRefused: `index` is not an index, or names anything but safetensors files in its
            folder.
    """
    if index.stat().st_size > _MAX_INDEX_BYTES:
        raise WeightsRefused(f"{index} has more than {_MAX_INDEX_BYTES} bytes")
    try:
        content = json.loads(index.read_bytes())
        names = set(content["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsRefused(f"{index} has no weight_map that can be read") from error
    if not isinstance(content.get("metadata"), dict):
        raise WeightsRefused(
            f"{index} has no metadata, and the libraries read an index only with metadata",
            hint='add "metadata": {} to it',
        )
    for name in names:
        if not isinstance(name, str) or not _PLAIN_WEIGHTS.fullmatch(name):
            raise WeightsRefused(
                f"{index} names {name!r:.100}: only safetensors files in its folder are read"
            )
    if not names:
        raise WeightsRefused(f"{index} names no file")
    return names


def _has_pickle(folder: Path) -> bool:
    return any(file.suffix in _PICKLES for file in folder.iterdir())


def deciding_files(folder: Path) -> list[Path]:
    """Return all files of a checkpoint with an effect on outputs, sorted by name.

    These are the weights in use, the index, the configurations, the tokenizer and the templates.
    Other files (a README, weights as pickles) are never read.

    Raises:
        WeightsRefused: as for `weight_files`.
    """
    others = {
        file
        for pattern in _DECIDING
        for file in folder.glob(pattern)
        if file.is_file() and not file.name.startswith(".") and file.name != _ACCOUNT
    }
    return sorted({*weight_files(folder), *others})


def digest(folder: Path) -> str:
    """Return the SHA-256 over names and contents of `deciding_files`, in hexadecimal.

    Raises:
        WeightsRefused: as for `weight_files`.
    """
    return _digest_of(folder, {})


def _digest_of(folder: Path, known: Mapping[str, str]) -> str:
    """Return the digest of a folder; files with a digest in `known` are not read again."""
    names = [file.relative_to(folder).as_posix() for file in deciding_files(folder)]
    with ThreadPoolExecutor(_MAX_THREADS, "digest") as pool:
        digests = pool.map(lambda name: known.get(name) or file_digest(folder / name), names)
        whole = hashlib.sha256()
        for name, one in zip(names, digests, strict=True):
            whole.update(f"{name} {one}\n".encode())
    return whole.hexdigest()


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def adapter_digest(folder: Path, base: str, known: Mapping[str, str] | None = None) -> str:
    """Return the SHA-256 over an adapter's files and the digest of its base checkpoint.

    Files with a digest in `known` are not read again.

    Raises:
        WeightsRefused: a file is missing.
    """
    whole = hashlib.sha256(f"base {base}\n".encode())
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        file = folder / name
        if not file.is_file():
            raise WeightsRefused(f"{folder} is not an adapter: it has no {name}")
        whole.update(f"{name} {(known or {}).get(name) or file_digest(file)}\n".encode())
    return whole.hexdigest()


def publish(
    folder: Path,
    write: Callable[[Path], Mapping[str, str]],
    digest_of: Callable[[Path, Mapping[str, str]], str] = _digest_of,
    twins: Mapping[str, Path] | None = None,
) -> str:
    """Have `write` fill a folder, then rename it to `folder` in a single atomic step.

    An existing `folder` is replaced.

    Args:
        write: returns the SHA-256 of each weight file by name, computed from the intended content:
            readers compare it with the content on the disk.
        digest_of: gets the folder and what `write` returned.
        twins: other files by their SHA-256. A written file with an equal content becomes a hard
            link to it, where the file system has links: it takes no further room.

    Returns:
        What `digest_of` returns: by default, the digest of the checkpoint.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        digests = write(partial)
        _link_twins(partial, digests, twins or {})
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    for file in partial.rglob("*"):
        flush(file)
    whole = digest_of(partial, digests)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    flush(folder.parent)
    return whole


def _link_twins(folder: Path, digests: Mapping[str, str], twins: Mapping[str, Path]) -> None:
    def link(name: str) -> None:
        file, twin, linked = folder / name, twins[digests[name]], folder / f".{name}.link"
        with suppress(OSError):  # the twin is gone, or no link can lead to it
            if file_digest(twin) == digests[name]:
                os.link(twin, linked)
                linked.replace(file)

    with ThreadPoolExecutor(_MAX_THREADS, "links") as pool:
        list(pool.map(link, [name for name, one in digests.items() if one in twins]))


def flush(path: Path) -> None:
    """Wait until the disk has a file's content, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
