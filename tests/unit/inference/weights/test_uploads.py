"""Room for uploads: of the disk, and between clients."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay_inference.weights.uploads import Uploads
from assay_shared.errors import NotFound, Overloaded
from assay_shared.telemetry.context import client_scope
from assay_shared.types import UploadFile, UploadRequest

CHUNK_BYTES = 2**20


def files(num_bytes: int) -> UploadRequest:
    file = UploadFile(name="model.safetensors", num_bytes=num_bytes, sha256="0" * 64)
    return UploadRequest(files=(file,))


@pytest.fixture
async def uploads(tmp_path: Path) -> AsyncIterator[Uploads]:
    uploads = Uploads(tmp_path, chunk_bytes=CHUNK_BYTES, max_bytes=2**50, idle_s=60.0)
    yield uploads
    await uploads.close()


async def test_what_the_disk_has_no_room_for_is_refused_before_a_byte_comes(
    uploads: Uploads, tmp_path: Path
) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(Overloaded, match="do not fit on the disk"):
        await uploads.begin(files(free), None)
    most = free * 2 // 3
    await uploads.begin(files(most), None)
    with pytest.raises(Overloaded, match="are announced"):
        await uploads.begin(files(most), None)


async def test_a_client_that_begins_many_uploads_keeps_nobody_else_out(uploads: Uploads) -> None:
    with client_scope("greedy"):
        begun = [(await uploads.begin(files(10), None)).id for _ in range(40)]
    with client_scope("modest"):
        other = (await uploads.begin(files(10), None)).id
    with client_scope("greedy"):
        begun += [(await uploads.begin(files(10), None)).id for _ in range(40)]
    assert uploads.state(other).id == other
    assert uploads.state(begun[-1]).id == begun[-1]
    with pytest.raises(NotFound):
        uploads.state(begun[0])


async def test_asking_for_the_state_keeps_no_upload(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, chunk_bytes=CHUNK_BYTES, max_bytes=2**30, idle_s=0.3)
    begun = (await uploads.begin(files(10), None)).id
    num_asked, ends_at = 0, time.monotonic() + 5
    with contextlib.suppress(NotFound):
        while time.monotonic() < ends_at:
            uploads.state(begun)
            num_asked += 1
            await asyncio.sleep(0.05)
            await uploads.forget_idle()
    assert 2 < num_asked < 50
    await uploads.close()
