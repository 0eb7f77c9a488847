"""The digests of what a stage made."""

import json
import os
from pathlib import Path

import pytest

from assay_shared.errors import Conflict, DatasetError
from assay_trainer.pipelines.levels.outputs import (
    changed_outputs,
    check_unchanged,
    outputs_of,
    record_outputs,
    told,
)
from assay_trainer.pipelines.stage_folder import StageFolder


def test_what_changed_is_told_and_points_to_resume_from_do_not_count(tmp_path: Path) -> None:
    own = StageFolder(tmp_path, "s", "1")
    for name in ("a.txt", "models/sft/b.txt", "checkpoints/sft/c.txt", ".lock"):
        file = own.output / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    record_outputs(own)
    assert list(outputs_of(own)) == ["a.txt", "models/sft/b.txt"]
    assert changed_outputs(own) == []
    (own.output / "a.txt").unlink()
    (own.output / "models" / "sft" / "b.txt").write_text("other")
    (own.output / "d.txt").write_text("new")
    expected = ["a.txt is missing", "d.txt is new", "models/sft/b.txt differs"]
    assert changed_outputs(own) == expected
    assert told([f"{n} is new" for n in range(7)]).endswith("4 is new; and 2 more")


def left(tmp_path: Path) -> StageFolder:
    own = StageFolder(tmp_path, "s", "1")
    own.output.mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (own.output / name).write_text(name)
    record_outputs(own)
    return own


def test_a_changed_or_missing_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    own = left(tmp_path)
    (own.output / "note.txt").write_text("mine")
    check_unchanged(own)
    (own.output / "a.txt").write_text("A.txt")
    (own.output / "b.txt").unlink()
    with pytest.raises(Conflict, match=r"of s .*: a\.txt differs; b\.txt is missing") as refused:
        check_unchanged(own)
    assert f"delete {own.path}" in (refused.value.hint or "")


def test_a_copy_is_read_once_and_a_file_with_its_old_size_and_time_never(tmp_path: Path) -> None:
    own = left(tmp_path)
    file, record = own.output / "a.txt", own.path / "outputs.json"
    before = outputs_of(own)
    os.utime(file, ns=(1, 1))
    check_unchanged(own)
    assert outputs_of(own) == before
    assert json.loads(record.read_text())["a.txt"]["mtime_ns"] == 1
    file.write_text("A.txt")
    os.utime(file, ns=(1, 1))
    check_unchanged(own)
    assert changed_outputs(own) == ["a.txt differs"], "that is what reproduce finds"
    record.write_text('{"a.txt": "1"}')
    with pytest.raises(DatasetError, match=r"outputs\.json is not as it was written"):
        check_unchanged(own)
