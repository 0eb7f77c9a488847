"""A real Valkey for tests, on a Unix socket, to be killed and started again."""

import shutil
import sys
import tempfile
from pathlib import Path

import redis

from assay_shared.runtime.processes import end, spawn
from tests.conftest import wait_until


class TestValkey:
    """A server in its own folder."""

    __test__ = False

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="assay-test-"))
        self.url = f"unix://{self.folder}/valkey.sock"
        self.start()

    def start(self) -> None:
        socket = str(self.folder / "valkey.sock")
        command = [sys.executable, "-m", "assay_shared.local.valkey", socket, str(self.folder)]
        self.process = spawn(command, log=self.folder / "valkey.log")
        wait_until(self._answers, "Valkey to answer")

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def clear(self) -> None:
        """Forget all data and scripts."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()
            client.script_flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        end([self.process], grace_s=5)
        shutil.rmtree(self.folder, ignore_errors=True)
