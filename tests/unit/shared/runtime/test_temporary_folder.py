"""Temporary folders of living processes and of killed ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay_shared.runtime.temporary_folder import TemporaryFolder

HOLDER = """
import sys
from pathlib import Path
from assay_shared.runtime.temporary_folder import TemporaryFolder
folder = TemporaryFolder("kind-", Path(sys.argv[1])).path
(folder / "weights").write_bytes(b"x" * 1000)
print(folder, flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(parent: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """Yield the folder of another process, and the process."""
    command = [sys.executable, "-c", HOLDER, str(parent)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield Path(process.stdout.readline().strip()), process
        process.kill()


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    (tmp_path / "kind-of-another-program").mkdir()
    (tmp_path / "kind-file").write_text("no folder")
    with holder(tmp_path) as (living, _), holder(tmp_path) as (killed, process):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert killed.exists()
        with TemporaryFolder("other-", tmp_path):
            assert killed.exists(), "it has another prefix"
        with TemporaryFolder("kind-", tmp_path) as own:
            assert own.stat().st_mode & 0o777 == 0o700
            assert not killed.exists()
            assert (living / "weights").exists()
            assert (tmp_path / "kind-of-another-program").exists(), "nobody here has made it"
        assert not own.exists()


def test_folders_of_one_process_do_not_remove_each_other(tmp_path: Path) -> None:
    with TemporaryFolder("kind-", tmp_path) as one, TemporaryFolder("kind-", tmp_path) as other:
        assert one != other
        assert one.exists()
        assert other.exists()
    assert not list(tmp_path.iterdir())


def test_a_folder_is_removed_once_and_its_absence_is_no_error(tmp_path: Path) -> None:
    folder = TemporaryFolder("kind-", tmp_path)
    folder.remove()
    folder.remove()
    assert not os.listdir(tmp_path)  # noqa: PTH208


def test_what_cannot_be_removed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    folder = TemporaryFolder("kind-", tmp_path, wipe=fail)
    folder.remove()
    assert f"{folder.path} cannot be removed" in caplog.text
