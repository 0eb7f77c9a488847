"""A sandbox of a user without any privilege, as in the documented container, for tests by root.

It runs in a separate process, with user 10001, in a mount namespace with this interpreter readable
to that user. Run as a program, this file is that process.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from assay_sandbox.sandbox import LocalSandbox
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import AssayError
from assay_shared.types import ExecutionRequest, Limits

USER = 10001
LIMITS = Limits(cpu_time_s=2.0, wall_time_s=3.0, memory_bytes=256 * 2**20, output_bytes=2**20)
_STOP_TIMEOUT_S = 20
#: Folders above the interpreter that only root may enter are replaced by ones that all may.
_ENTER = """
set -e
for closed in $CLOSED; do
    mkdir -p "$WORK/kept"
    mount --bind "$SHOWN" "$WORK/kept"
    mount -t tmpfs -o mode=755 none "$closed"
    mkdir -p "$SHOWN"
    mount --bind "$WORK/kept" "$SHOWN"
done
exec setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --no-new-privs "$@"
"""
#: Why such a sandbox cannot be started here; None where it can.
WHY_NOT = (
    None
    if os.geteuid() == 0 and shutil.which("setpriv") and shutil.which("unshare")
    else "needs root, to give it up"
)


class PlainUserSandbox:
    """The process, from here: a program at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.isolation = str(self._receive()["isolation"])

    def run(self, code: str) -> dict[str, Any]:
        """Run a program; the fields of its result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the sandbox has ended"
        return dict(json.loads(line))

    @property
    def pid(self) -> int:
        return self._process.pid


@contextmanager
def opened(folder: Path, isolation: str, **settings: object) -> Iterator[PlainUserSandbox]:
    """Start a sandbox with a single slot in `folder`."""
    os.chown(folder, USER, USER)
    shown = Path(sys.base_prefix)
    closed = [str(p) for p in shown.parents if not p.stat().st_mode & 0o001]
    values = {"sandbox_isolation": isolation, "sandbox_work_folder": str(folder)} | settings
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh"]
    process = subprocess.Popen(
        [*command, sys.executable, __file__, json.dumps(values)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "CLOSED": " ".join(closed[-1:]),
            "SHOWN": str(shown),
            "WORK": str(folder),
            "USER_ID": str(USER),
            "HOME": str(folder),
        },
        cwd="/",
    )
    try:
        yield PlainUserSandbox(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(_STOP_TIMEOUT_S)
        process.stdout.close()


async def _serve(settings: SandboxSettings) -> None:
    """Run a program for each line of standard input."""
    sandbox = LocalSandbox(settings, CollectorRegistry())
    await sandbox.open()
    try:
        _send({"isolation": sandbox.isolation})
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = ExecutionRequest(code=json.loads(line), limits=LIMITS)
            try:
                result = (await sandbox.execute(request)).model_dump(mode="json")
            except AssayError as error:
                result = {"status": f"{type(error).__name__}: {error}", "stdout": ""}
            _send(result)
    finally:
        await sandbox.close()


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    defaults = {"sandbox_slots": 1, "sandbox_minimum_isolation": "fallback"}
    asyncio.run(_serve(SandboxSettings.model_validate(defaults | json.loads(sys.argv[1]))))
