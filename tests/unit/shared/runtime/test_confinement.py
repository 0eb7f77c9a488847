"""A confined process, seen from within: what it still may do, and what it may not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay_shared.runtime.confinement import has_landlock

NEEDS_LANDLOCK = pytest.mark.skipif(not has_landlock(), reason="needs a kernel with Landlock")


def confined(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """Run code in a process that may write to `folder` alone."""
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from assay_shared.runtime.confinement import confine\n"
        f"confine(20, Path({str(folder)!r}))\n{code}"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def test_it_writes_to_its_folder(tmp_path: Path) -> None:
    done = confined(tmp_path, f"Path({str(tmp_path / 'a')!r}).write_text('hello')")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a").read_text() == "hello"


@NEEDS_LANDLOCK
def test_it_writes_nowhere_else(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    done = confined(own, f"Path({str(other / 'a')!r}).write_text('hello')")
    assert "PermissionError" in done.stderr
    assert list(other.iterdir()) == []


@NEEDS_LANDLOCK
def test_it_runs_no_program(tmp_path: Path) -> None:
    done = confined(tmp_path, f"sys.exit(os.system('touch {tmp_path}/made') == 0)")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "made").exists()


def test_it_has_no_network(tmp_path: Path) -> None:
    code = "print(sorted(name for _, name in __import__('socket').if_nameindex()))"
    assert confined(tmp_path, code).stdout == "['lo']\n"
