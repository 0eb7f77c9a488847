"""Uploads a checkpoint folder to an inference service without a shared file system."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from assay_shared.clients.inference import InferenceClient
from assay_shared.errors import Conflict, WeightsRefused
from assay_shared.types import Upload, UploadFile, UploadRequest
from assay_shared.weights import delta
from assay_shared.weights.checkpoint import file_digest

#: Rounds of sending; each resends the chunks that did not arrive whole.
_ROUNDS = 3
#: A delta is sent only if it is smaller than this share of the chunk.
_WORTHWHILE_SHARE = 0.8
#: After this many deltas of one file in a row were too large, no more are tried for the file.
_VAIN_TRIES = 2


@dataclass
class Uploaded:
    """A complete upload: its id and its sizes."""

    id: str
    num_bytes: int
    num_sent_bytes: int = 0
    num_deltas: int = 0
    num_chunks: int = 0
    took_s: float = 0.0


async def upload_weights(
    client: InferenceClient,
    folder: Path,
    base: tuple[str, Path] | None = None,
    *,
    num_parallel: int = 4,
) -> Uploaded:
    """Upload the files of `folder` with `num_parallel` chunks in flight, and return the upload.

    Args:
        base: digest and folder of a version. If inference serves this version, chunks are sent as
            differences from the base, unless a difference is not much smaller than its chunk.

    Raises:
        WeightsRefused: chunks still arrive broken after all rounds.
    """
    started = time.perf_counter()
    files = await asyncio.to_thread(_files, folder)
    state, base = await _begin(client, files, base)
    uploaded = Uploaded(id=state.id, num_bytes=sum(file.num_bytes for file in files))
    sender = _Sender(client, folder, base[1] if base else None, uploaded, state.chunk_bytes)
    for _ in range(_ROUNDS):
        if not state.missing:
            break
        await sender.send(state, num_parallel)
        state = await client.upload_state(state.id)
    if state.missing:
        raise WeightsRefused(f"chunks of {', '.join(state.missing)} do not arrive whole")
    uploaded.took_s = time.perf_counter() - started
    return uploaded


def _files(folder: Path) -> tuple[UploadFile, ...]:
    return tuple(
        UploadFile(name=file.name, num_bytes=file.stat().st_size, sha256=file_digest(file))
        for file in sorted(folder.iterdir())
        if file.is_file()
    )


async def _begin(
    client: InferenceClient, files: tuple[UploadFile, ...], base: tuple[str, Path] | None
) -> tuple[Upload, tuple[str, Path] | None]:
    """Begin the upload against `base`, or without a base if inference does not serve it."""
    if base is not None and base[1].is_dir():
        try:
            return await client.begin_upload(UploadRequest(files=files, base=base[0])), base
        except Conflict:
            pass
    return await client.begin_upload(UploadRequest(files=files)), None


class _Sender:
    """Sender of chunks; counts bytes, chunks and deltas."""

    def __init__(
        self,
        client: InferenceClient,
        folder: Path,
        base: Path | None,
        uploaded: Uploaded,
        chunk_bytes: int,
    ) -> None:
        self._client = client
        self._folder = folder
        self._base = base
        self._uploaded = uploaded
        self._chunk_bytes = chunk_bytes
        self._vain: dict[str, int] = {}

    async def send(self, state: Upload, num_parallel: int) -> None:
        """Send all missing chunks; a chunk that arrives broken stays missing."""
        waiting = iter([(name, number) for name in state.missing for number in state.missing[name]])

        async def work() -> None:
            for name, number in waiting:
                await self._send_one(state.id, name, number)

        async with asyncio.TaskGroup() as group:
            for _ in range(num_parallel):
                group.create_task(work())

    async def _send_one(self, upload: str, name: str, number: int) -> None:
        body, is_delta = await asyncio.to_thread(self._encoded, name, number)
        self._uploaded.num_sent_bytes += len(body)
        self._uploaded.num_deltas += is_delta
        self._uploaded.num_chunks += 1
        try:
            await self._client.put_chunk(upload, name, number, body, is_delta=is_delta)
        except WeightsRefused as error:
            if error.field != "x-chunk-sha256":
                raise

    def _encoded(self, name: str, number: int) -> tuple[bytes, bool]:
        chunk = self._read(self._folder / name, number)
        if self._base is None or self._vain.get(name, 0) >= _VAIN_TRIES:
            return chunk, False
        before = self._base / name
        old = self._read(before, number) if before.is_file() else b""
        if len(old) == len(chunk):
            encoded = delta.encode(chunk, old)
            if len(encoded) < _WORTHWHILE_SHARE * len(chunk):
                self._vain[name] = 0
                return encoded, True
        self._vain[name] = self._vain.get(name, 0) + 1
        return chunk, False

    def _read(self, file: Path, number: int) -> bytes:
        with file.open("rb") as content:
            content.seek(number * self._chunk_bytes)
            return content.read(self._chunk_bytes)
