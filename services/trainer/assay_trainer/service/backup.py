"""Runs and Redis's content in a single file, and back.

A backup is a tar archive: `runs/<name>/...`, `redis.jsonl`, and last `backup.json` with the SHA-256
of everything. A run may continue meanwhile: its copy is as after a kill at that moment, and is
resumed likewise. Published weights are left out: a resume publishes them again.
"""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from assay_shared import __version__
from assay_shared.errors import Conflict, InvalidInput, Unreachable, WeightsRefused
from assay_shared.runs.run_folder import RUN_NAME, RunFolder, check_run_name
from assay_trainer.learner import checkpoint

_MANIFEST = "backup.json"
_REDIS = "redis.jsonl"
_KEYS = "assay:*"
#: They are of processes that will not be there, or of no use elsewhere.
_PASSING = (
    b"assay:lease:",
    b"assay:judge:limits:",
    b"assay:executor:limits:",
    b"assay:dead_letters",
)
#: Files of folders other than runs: pipelines, ablations, evaluations.
_OTHERS = ("pipeline.json", "ablation.json", "evaluation.json")
_TIMEOUT_S = 30
_ATTEMPTS = 5


def back_up(file: Path, runs: Path, names: list[str], redis_url: str | None) -> list[str]:
    """Write `file`; it appears when it is whole. The names of the runs in it.

    Raises:
        Conflict: `file` is there already.
        NotFound: there is no such run.
        InvalidInput: no run can have such a name.
        Unreachable: Redis does not answer.
    """
    if file.exists():
        raise Conflict(f"{file} exists")
    for name in names:
        check_run_name(name)
    found = names or sorted(path.parent.name for path in runs.glob("*/config.json"))
    folders = [RunFolder.open(runs / name) for name in found]
    partial = file.with_name(f".{file.name}.partial")
    digests: dict[str, str] = {}
    try:
        with tarfile.open(partial, "w") as archive:
            for run in folders:
                _add_run(archive, run, digests)
            if redis_url is not None:
                _add(archive, _REDIS, "\n".join(_dump(redis_url)).encode(), digests)
            facts = {"version": __version__, "time": time.time(), "runs": found, "sha256": digests}
            _add(archive, _MANIFEST, json.dumps(facts, indent=1).encode(), {})
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return found


def other_results(runs: Path) -> list[str]:
    """Return the folders in no backup: pipelines, ablations, evaluations."""
    return sorted({file.parent.name for name in _OTHERS for file in runs.glob(f"*/{name}")})


def _add_run(archive: tarfile.TarFile, run: RunFolder, digests: dict[str, str]) -> None:
    """Add checkpoints first: all other files are newer, as after a kill."""
    with _held_checkpoints(run) as held:
        for path in _files(held):
            name = f"checkpoints/{path.relative_to(held)}"
            _add_file(archive, f"runs/{run.path.name}/{name}", path, digests)
    for path in _files(run.path):
        inside = path.relative_to(run.path)
        if not _is_left_out(inside):
            _add_file(archive, f"runs/{run.path.name}/{inside}", path, digests)


def _files(folder: Path) -> list[Path]:
    """Return the files, sorted; folders deleted meanwhile are skipped (`rglob` would raise)."""
    walk = os.walk(folder)
    return sorted(Path(root) / name for root, _, names in walk for name in names)


def _is_left_out(inside: Path) -> bool:
    if inside.parts[0] == "checkpoints" or any(part.startswith(".") for part in inside.parts):
        return True
    return inside.parts[0] == "policy" and len(inside.parts) > 2


@contextmanager
def _held_checkpoints(run: RunFolder) -> Iterator[Path]:
    """Yield the newest complete checkpoint of each stage, under second names safe from deletion."""
    held = run.path / f".backup-{os.getpid()}"
    try:
        for stage in sorted(run.checkpoints.glob("*")):
            _hold_newest(stage, held / stage.name)
        yield held
    finally:
        shutil.rmtree(held, ignore_errors=True)


def _hold_newest(stage: Path, to: Path) -> None:
    """Link the newest undamaged checkpoint; nothing if all are damaged."""
    for attempt in range(_ATTEMPTS):
        try:
            for folder in reversed(checkpoint.whole(stage)):
                held = to / folder.name
                shutil.copytree(folder, held, copy_function=os.link)
                try:
                    checkpoint.check(held)
                    return
                except WeightsRefused:
                    shutil.rmtree(held)
            return
        except (shutil.Error, FileNotFoundError):  # a newer one has just taken its place
            shutil.rmtree(to, ignore_errors=True)
            if attempt == _ATTEMPTS - 1:
                raise


def _add_file(archive: tarfile.TarFile, name: str, path: Path, digests: dict[str, str]) -> None:
    """Add the file's present length: a log may grow meanwhile."""
    with path.open("rb") as file:
        info = archive.gettarinfo(arcname=name, fileobj=file)
        reader = _Hashed(file, info.size)
        info.type, info.linkname = tarfile.REGTYPE, ""  # not a link to its own second name
        archive.addfile(info, reader)
    digests[name] = reader.hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes, digests: dict[str, str]) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(content), int(time.time())
    archive.addfile(info, io.BytesIO(content))
    digests[name] = hashlib.sha256(content).hexdigest()


class _Hashed(io.RawIOBase):
    """Hashes all bytes read through it."""

    def __init__(self, file: io.BufferedReader, size: int) -> None:
        self._file, self._left = file, size
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(content)
        self._digest.update(content)
        return content

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _dump(redis_url: str) -> Iterator[str]:
    """Yield each key with Redis's dump of its value and its time to live (-1: for ever)."""
    with _reaching(redis_url) as client:
        for key in client.scan_iter(_KEYS, count=1000):
            value, ttl_ms = client.dump(key), client.pttl(key)
            if value is not None and not key.startswith(_PASSING):
                yield json.dumps([b64encode(key).decode(), ttl_ms, b64encode(value).decode()])


@contextmanager
def _reaching(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(
        redis_url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
    ) as client:
        try:
            yield client
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise Unreachable(f"no Redis: {error}", service="redis") from error


def restore(file: Path, runs: Path, names: list[str], redis_url: str | None) -> list[str]:
    """Put runs back, each in an atomic step after its digests are compared; return their names.

    Redis keeps its present content.

    Raises:
        Conflict: a run of that name exists.
        InvalidInput: the file is not a backup, is damaged, or has no such run.
    """
    try:
        with tarfile.open(file) as archive:
            facts = json.loads(_content(archive, _MANIFEST))
            found = names or facts["runs"]
            for name in found:
                _restore_run(archive, runs, name, facts["sha256"])
            if redis_url is not None and _REDIS in facts["sha256"]:
                _load(_content(archive, _REDIS, facts["sha256"][_REDIS]), redis_url)
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise InvalidInput(f"{file} is not a backup, or is damaged: {error}") from None
    return list(found)


def _content(archive: tarfile.TarFile, name: str, digest: str | None = None) -> bytes:
    reader = archive.extractfile(name)
    assert reader is not None, "a file, as it was written"
    content = reader.read()
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{name} is not what was written")
    return content


def _restore_run(archive: tarfile.TarFile, runs: Path, name: str, sha256: dict[str, str]) -> None:
    to, partial = runs / name, runs / f".{name}.partial"
    prefix = f"runs/{name}/"
    members = {member: digest for member, digest in sha256.items() if member.startswith(prefix)}
    if not members or not re.fullmatch(RUN_NAME, name):
        raise ValueError(f"it has no run {name!r}")
    if to.exists():
        raise Conflict(f"{to} exists", hint="restore into another folder with --runs")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        for member, digest in members.items():
            archive.extract(member, partial, filter="data")
            with (partial / member).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    raise ValueError(f"{member} is not what was written")
        (partial / "runs" / name).replace(to)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _load(lines: bytes, redis_url: str) -> None:
    with _reaching(redis_url) as client:
        for line in lines.splitlines():
            key, ttl_ms, value = json.loads(line)
            if not client.exists(b64decode(key)):
                client.restore(b64decode(key), max(0, ttl_ms), b64decode(value))
