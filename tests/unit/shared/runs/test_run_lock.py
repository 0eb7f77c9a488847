"""A single process at a time holds a run, and the kernel notices its end."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay_shared.errors import Conflict
from assay_shared.runs.run_lock import LOCK, held, owner_of

HOLD = """
import sys, time
from pathlib import Path
from assay_shared.runs.run_lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process with the run's lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_with_the_name_of_the_first(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    owner = owner_of(tmp_path)
    assert owner is not None
    assert owner.pid == other.pid
    named = f"belongs to process {other.pid} on .*wait until it ends"
    with pytest.raises(Conflict, match=named), held(tmp_path):
        pytest.fail("two hold it")


def test_the_lock_of_a_killed_process_is_free(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    other.kill()
    other.wait()
    assert (tmp_path / LOCK).read_text(), "its name is still there"
    assert owner_of(tmp_path) is None
    with held(tmp_path) as owner:
        assert owner_of(tmp_path) == owner
    assert owner_of(tmp_path) is None


def test_those_who_only_look_refuse_nobody(tmp_path: Path) -> None:
    looking = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom pathlib import Path\n"
            "from assay_shared.runs.run_lock import owner_of\n"
            "print('looking', flush=True)\nwhile True: owner_of(Path(sys.argv[1]))",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert looking.stdout is not None
        assert looking.stdout.readline() == "looking\n"
        for _ in range(300):
            with held(tmp_path):
                pass
    finally:
        looking.kill()
        looking.wait()
        assert looking.stdout is not None
        looking.stdout.close()


def test_a_damaged_name_does_not_hide_that_the_run_is_held(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    (tmp_path / LOCK).write_text("{")
    owner = owner_of(tmp_path)
    assert owner is not None
    assert owner.pid == 0
    with pytest.raises(Conflict, match="belongs to another process"), held(tmp_path):
        pytest.fail("two hold it")
