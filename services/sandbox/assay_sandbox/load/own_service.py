"""A sandbox service for a bench: started, measured and ended by the bench."""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp

from assay_sandbox.load.footprint import Footprint
from assay_shared.errors import SandboxFault
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_shared.service.server import bind

_START_TIMEOUT_S = 60.0
_TOKENS = "ASSAY_CLIENT_TOKENS"
_STOP_GRACE_S = 30.0
_REBUILDS = re.compile(r"^assay_sandbox_slot_rebuilds_total (\S+)", re.MULTILINE)


@contextmanager
def service_folders() -> Iterator[tuple[Path, Path]]:
    """Yield a folder, and a folder in it for the service's temporary files."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # every slot's user needs access to its content
        temporary = folder / "tmp"
        temporary.mkdir(mode=0o755)
        yield folder, temporary


@asynccontextmanager
async def own_service(
    log: Path, temporary: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[str, Footprint]]:
    """Start a sandbox as its own process; yield its address and its footprint.

    Client tokens in `environment` replace those of this process, a file of them too.
    """
    own = environment or {}
    inherited = {
        name: value
        for name, value in os.environ.items()
        if _TOKENS not in own or not name.startswith(_TOKENS)
    }
    listener = bind("127.0.0.1", 0)
    command = (sys.executable, "-m", "assay_shared.cli", "sandbox", "serve", "--fd")
    with listener:
        process = spawn(
            [*command, str(listener.fileno())],
            log=log,
            environment={**inherited, **own, "TMPDIR": str(temporary)},
            pass_fds=(listener.fileno(),),
        )
        url = "http://{}:{}".format(*listener.getsockname())
    try:
        yield url, Footprint(process.pid, temporary)
    finally:
        await asyncio.to_thread(end, [process], _STOP_GRACE_S)


async def wait_until_ready(session: aiohttp.ClientSession, url: str, log: Path | None) -> str:
    """Wait for the first answer and return the service's isolation.

    Raises:
        SandboxFault: there is no answer; the error ends with the last lines of `log`.
    """
    try:
        async with asyncio.timeout(_START_TIMEOUT_S), session.get(f"{url}/health") as response:
            return str((await response.json())["isolation"])
    except (aiohttp.ClientError, TimeoutError) as error:
        lines = last_lines(log, 5) if log else []
        raise SandboxFault("\n".join(["no service", *lines])) from error


async def num_rebuilds(session: aiohttp.ClientSession, url: str) -> int:
    """Return the number of slots rebuilt by the service since its start."""
    async with session.get(f"{url}/metrics") as response:
        found = _REBUILDS.search(await response.text())
    return int(float(found.group(1))) if found else 0
