"""Uploads of weights in chunks, stored while they arrive and while they are served."""

import asyncio
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from assay_inference.settings import InferenceSettings
from assay_shared.errors import Conflict, NotFound, Overloaded, TooLarge, WeightsRefused
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.telemetry import context
from assay_shared.types import Upload, UploadFile, UploadRequest
from assay_shared.weights import delta
from assay_shared.weights.checkpoint import file_digest

#: Maximum number of open uploads: of all clients, and of a single client.
_MAX_OPEN, _MAX_OPEN_OF_CLIENT = 16, 4
#: Bytes left free on the disk after all announced bytes have arrived.
_FREE_BYTES = 2**30
_RETRY_AFTER_S = 5.0
CHECKSUM_FIELD = "x-chunk-sha256"


@dataclass
class _Coming:
    """An open or complete upload."""

    folder: Path
    files: dict[str, UploadFile]
    missing: dict[str, set[int]]
    base: str | None
    base_folder: Path | None
    client: str
    touched_at: float = field(default_factory=time.monotonic)
    is_whole: bool = False

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files.values())


class Uploads:
    """The uploads of all clients. Use it on a single event loop; threads access the files."""

    def __init__(
        self, folder: Path | None, *, chunk_bytes: int, max_bytes: int, idle_s: float
    ) -> None:
        """Use `folder`, or a temporary folder; remove uploads left by an earlier service."""
        self._temporary: TemporaryFolder | None = None
        if folder is None:
            self._temporary = TemporaryFolder("assay-weights-")
            folder = self._temporary.path
        self._root = folder
        self._chunk_bytes = chunk_bytes
        self._max_bytes = max_bytes
        self._idle_s = idle_s
        self._uploads: dict[str, _Coming] = {}
        self._others: set[Path] = set()
        self._forgetting: asyncio.Task[None] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("upload-*"):
            shutil.rmtree(left)

    @classmethod
    def of(cls, settings: InferenceSettings) -> "Uploads":
        return cls(
            settings.inference_upload_folder,
            chunk_bytes=settings.inference_upload_chunk_bytes,
            max_bytes=settings.inference_upload_max_bytes,
            idle_s=settings.inference_upload_idle_s,
        )

    async def begin(self, request: UploadRequest, served: tuple[str, Path] | None) -> Upload:
        """Make room for the announced files and return the new upload.

        Args:
            served: digest and folder of the version on which differences may be based.

        Raises:
            Conflict: the request's base is not the served version.
            TooLarge: the files would never fit.
            Overloaded: the files do not fit now.
        """
        if request.base is not None and (served is None or served[0] != request.base):
            raise Conflict(
                f"{request.base[:12]}... is not what is served",
                field="base",
                hint="name the served digest, or no base",
            )
        if self._forgetting is None:
            self._forgetting = asyncio.create_task(self._forget_idle_for_ever())
        await self.forget_idle()
        await self._give_up_oldest_of(context.client())
        num_bytes = sum(file.num_bytes for file in request.files)
        self._check_room(num_bytes)
        await asyncio.to_thread(self._check_disk, num_bytes)
        identifier = f"upload-{secrets.token_hex(8)}"
        coming = _Coming(
            folder=self._root / identifier,
            files={file.name: file for file in request.files},
            missing={file.name: self._chunks(file) for file in request.files},
            base=request.base,
            base_folder=served[1] if served is not None and request.base is not None else None,
            client=context.client(),
        )
        self._uploads[identifier] = coming
        await asyncio.to_thread(_prepare, coming)
        return self._state(identifier)

    def _chunks(self, file: UploadFile) -> set[int]:
        return set(range(-(-file.num_bytes // self._chunk_bytes)))

    def _check_room(self, num_bytes: int) -> None:
        if num_bytes > self._max_bytes:
            raise TooLarge(f"{num_bytes} bytes are over the limit of {self._max_bytes}")
        used = sum(upload.num_bytes for upload in self._uploads.values())
        num_open = sum(not upload.is_whole for upload in self._uploads.values())
        if used + num_bytes > self._max_bytes or num_open >= _MAX_OPEN:
            raise Overloaded(
                f"{num_open} uploads are under way, and {used} bytes are kept",
                retry_after_s=_RETRY_AFTER_S,
            )

    async def _give_up_oldest_of(self, client: str) -> None:
        """Remove a client's oldest open upload if a new one would exceed the client's limit."""
        own = [
            identifier
            for identifier, upload in self._uploads.items()
            if not upload.is_whole and upload.client == client
        ]
        await self._remove(own[: max(0, len(own) + 1 - _MAX_OPEN_OF_CLIENT)])

    def _check_disk(self, num_bytes: int) -> None:
        """Check that the disk has room for `num_bytes` and for the missing chunks of all uploads.

        A file takes no room before its bytes arrive, so the announced bytes of other uploads must
        be counted.

        Raises:
            Overloaded: there is not enough room.
        """
        coming = sum(
            min(len(left) * self._chunk_bytes, upload.files[name].num_bytes)
            for upload in list(self._uploads.values())
            for name, left in upload.missing.items()
        )
        self._root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._root).free
        if num_bytes + coming + _FREE_BYTES > free:
            raise Overloaded(
                f"{num_bytes} bytes do not fit on the disk: {free} are free, of which {coming} "
                f"are announced and {_FREE_BYTES} stay free",
                field="files",
                hint="ASSAY_INFERENCE_UPLOAD_FOLDER names a folder on a larger disk",
                retry_after_s=_RETRY_AFTER_S,
            )

    def state(self, identifier: str) -> Upload:
        """Return the state of an upload. Raises NotFound if there is no such upload."""
        self._find(identifier)
        return self._state(identifier)

    def _state(self, identifier: str) -> Upload:
        coming = self._uploads[identifier]
        missing = {name: tuple(sorted(left)) for name, left in coming.missing.items() if left}
        return Upload(
            id=identifier, chunk_bytes=self._chunk_bytes, base=coming.base, missing=missing
        )

    def _find(self, identifier: str) -> _Coming:
        if identifier not in self._uploads:
            raise NotFound(f"there is no upload {identifier}", hint="begin another one")
        return self._uploads[identifier]

    async def put(
        self, identifier: str, name: str, number: int, body: bytes, sha256: str, *, is_delta: bool
    ) -> None:
        """Store a chunk; the same chunk may be sent again.

        Raises:
            NotFound: there is no such upload, file or chunk.
            Conflict: the upload is complete.
            WeightsRefused: the body differs from its checksum, or does not fit this chunk.
        """
        coming = self._find(identifier)
        if coming.is_whole:
            raise Conflict(f"{identifier} is whole and is not changed any more")
        file = coming.files.get(name)
        if file is None or number not in self._chunks(file):
            raise NotFound(f"{identifier} has no chunk {number} of {name}")
        start = number * self._chunk_bytes
        length = min(self._chunk_bytes, file.num_bytes - start)
        where = f"chunk {number} of {name}"
        await asyncio.to_thread(
            _write, coming, name, (start, length), body, sha256, is_delta, where
        )
        coming.missing[name].discard(number)
        # Only arriving bytes keep an upload alive: asking for its state does not.
        coming.touched_at = time.monotonic()

    async def finish(self, identifier: str) -> Path:
        """Return the upload's folder, after checking each file against the announcement.

        Raises:
            WeightsRefused: chunks are missing, or a file differs and must be sent again.
            NotFound: there is no such upload.
        """
        coming = self._find(identifier)
        if coming.is_whole:
            return coming.folder
        for name, left in coming.missing.items():
            if left:
                raise WeightsRefused(
                    f"{len(left)} chunks of {name} have not come, {min(left)} is the first",
                    field="source.upload",
                )
        for name, file in coming.files.items():
            found = await asyncio.to_thread(file_digest, coming.folder / name)
            if found != file.sha256:
                coming.missing[name] = self._chunks(file)
                raise WeightsRefused(
                    f"{name} came with SHA-256 {found[:12]}..., not {file.sha256[:12]}...",
                    field="source.upload",
                )
        coming.is_whole = True
        return coming.folder

    def new_folder(self) -> Path:
        """Return the path of a new folder next to the uploads, kept while it is served."""
        folder = self._root / f"upload-{secrets.token_hex(8)}"
        self._others.add(folder)
        return folder

    async def keep_only(self, served: Collection[Path | None]) -> None:
        """Remove all complete uploads and other folders, except the served ones."""
        await self._remove(
            [
                identifier
                for identifier, upload in self._uploads.items()
                if upload.is_whole and upload.folder not in served
            ]
        )
        for folder in [folder for folder in self._others if folder not in served]:
            self._others.discard(folder)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def forget_idle(self) -> None:
        """Remove open uploads without a chunk for too long."""
        oldest = time.monotonic() - self._idle_s
        await self._remove(
            [
                identifier
                for identifier, upload in self._uploads.items()
                if not upload.is_whole and upload.touched_at < oldest
            ]
        )

    async def _forget_idle_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._idle_s / 4)
            await self.forget_idle()

    async def _remove(self, identifiers: list[str]) -> None:
        for identifier in identifiers:
            folder = self._uploads.pop(identifier).folder
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def close(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        await self._remove(list(self._uploads))
        await self.keep_only(())
        if self._temporary is not None:
            await asyncio.to_thread(self._temporary.remove)


def _prepare(coming: _Coming) -> None:
    """Create the files in full size; copy a file from the base if the base has the same."""
    coming.folder.mkdir(parents=True)
    for name, file in coming.files.items():
        before = None if coming.base_folder is None else coming.base_folder / name
        if (
            before is not None
            and before.is_file()
            and before.stat().st_size == file.num_bytes
            and file_digest(before) == file.sha256
        ):
            shutil.copyfile(before, coming.folder / name)
            coming.missing[name] = set()
        else:
            with (coming.folder / name).open("wb") as content:
                content.truncate(file.num_bytes)


def _write(
    coming: _Coming,
    name: str,
    at: tuple[int, int],
    body: bytes,
    sha256: str,
    is_delta: bool,
    where: str,
) -> None:
    found = hashlib.sha256(body).hexdigest()
    if found != sha256:
        raise WeightsRefused(
            f"{where} came with SHA-256 {found[:12]}..., not {sha256[:12]}...",
            field=CHECKSUM_FIELD,
            hint="send it again",
        )
    start, length = at
    if is_delta:
        try:
            body = delta.decode(body, _base_chunk(coming, name, at, where))
        except ValueError as error:
            raise WeightsRefused(f"{where}: {error}") from error
    if len(body) != length:
        raise WeightsRefused(f"{where} has {len(body)} bytes, not {length}")
    fd = os.open(coming.folder / name, os.O_WRONLY)
    try:
        os.pwrite(fd, body, start)
    finally:
        os.close(fd)


def _base_chunk(coming: _Coming, name: str, at: tuple[int, int], where: str) -> bytes:
    start, length = at
    if coming.base_folder is None:
        raise WeightsRefused(f"{where} is a difference, and the upload names no base")
    try:
        fd = os.open(coming.base_folder / name, os.O_RDONLY)
    except OSError as error:
        raise WeightsRefused(f"{where}: its base is gone") from error
    try:
        found = os.pread(fd, length, start)
    finally:
        os.close(fd)
    if len(found) != length:
        raise WeightsRefused(f"{where} is a difference from a file that ends before it")
    return found
