"""Checkpoint folders: written fully, named last, and known by the digest of their weights."""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from assay_shared.errors import WeightsRefused

#: The files of a LoRA adapter, as peft writes them.
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MAX_THREADS = 32
#: torch's types by the names that safetensors files have for them.
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "BF16": "bfloat16",
    "F16": "float16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, sorted by name.

    Raises:
        WeightsRefused: the folder is missing or holds none, or no config.json.
    """
    if not folder.is_dir():
        raise WeightsRefused(f"there is no checkpoint folder {folder}")
    files = sorted(folder.glob("*.safetensors"))
    if not files or not (folder / "config.json").is_file():
        raise WeightsRefused(
            f"{folder} is not a checkpoint", hint="it needs config.json and *.safetensors"
        )
    return files


def digest(folder: Path) -> str:
    """SHA-256 over the names and contents of the weight files, in hexadecimal."""
    files = weight_files(folder)
    with ThreadPoolExecutor(_MAX_THREADS, "digest") as pool:
        digests = pool.map(file_digest, files)
        return _digest_of({file.name: one for file, one in zip(files, digests, strict=True)})


def _digest_of(digests: Mapping[str, str]) -> str:
    """Of a checkpoint, from those of its weight files by name."""
    whole = hashlib.sha256()
    for name in sorted(digests):
        whole.update(f"{name} {digests[name]}\n".encode())
    return whole.hexdigest()


def file_digest(file: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def adapter_digest(folder: Path, base: str) -> str:
    """SHA-256 over an adapter's files and the digest of the checkpoint that it is for.

    Raises:
        WeightsRefused: a file is missing.
    """
    whole = hashlib.sha256(f"base {base}\n".encode())
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        file = folder / name
        if not file.is_file():
            raise WeightsRefused(f"{folder} is not an adapter: it has no {name}")
        whole.update(f"{name} {file_digest(file)}\n".encode())
    return whole.hexdigest()


def publish(folder: Path, write: Callable[[Path], Mapping[str, str]]) -> str:
    """Have `write` fill a folder and let it appear as `folder` in one atomic step.

    A folder that was there before is replaced.

    Args:
        write: returns the SHA-256 of each weight file by its name, as it was meant to be: what a
            disk makes of it is compared by those who read it.

    Returns:
        The digest of the checkpoint.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    digests = write(partial)
    for file in partial.iterdir():
        _sync(file)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    _sync(folder.parent)
    return _digest_of(digests)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
