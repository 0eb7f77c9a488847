from pathlib import Path

import pytest

from assay_shared.errors import Conflict, NotFound
from assay_shared.runs.run_folder import RunFolder, RunStatus, write_atomically


def test_events_come_back_in_order_and_a_half_written_one_does_not(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.record("step", step=1)
    folder.record("step", step=2)
    with folder.events.open("a") as file:
        file.write('{"time": 1.0, "kind": "st')
    assert [event.data["step"] for event in folder.read_events()] == [1, 2]


def test_a_folder_is_created_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run")
    with pytest.raises(Conflict, match="resume it"):
        RunFolder.create(tmp_path / "run")


def test_opening_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no config.json"):
        RunFolder.open(tmp_path)


def test_status_survives_and_starts_as_created(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    assert folder.read_status().state == "created"
    folder.write_status(RunStatus(state="running", step=3))
    assert folder.read_status().step == 3


def test_a_failed_write_leaves_the_old_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"


def test_a_text_that_cannot_be_written_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "status"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half \ud800")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["status"]
