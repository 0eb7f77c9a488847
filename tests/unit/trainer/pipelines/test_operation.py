"""A pipeline on a full disk tells the stage, the path and what to do."""

from pathlib import Path

import pytest

from assay_shared.errors import AssayError
from assay_trainer.pipelines.operation import PipelineOrder, run_pipeline
from assay_trainer.pipelines.runner import Pipeline, StageFailed
from tests.support.pipelines import open_pipeline

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")


def opened(place: Path, words: str = "tasks --num 1") -> Pipeline:
    return open_pipeline(place, {"first": {"kind": "command", "words": words.split()}})


def fill(folder: Path, name: str) -> None:
    """Have the next write of this file fail as on a full disk."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{name}.partial").symlink_to(FULL)


def run(place: Path) -> None:
    order = PipelineOrder(place / "pipeline.yaml", folder=place / "pipeline")
    run_pipeline(order, (None, None, ()))


def test_a_stage_that_cannot_be_written_is_named_with_advice(tmp_path: Path) -> None:
    folder = opened(tmp_path).stages["first"].folder
    fill(folder.path, "stage.json")
    fill(tmp_path / "pipeline", "report.md")
    with pytest.raises(StageFailed, match="first could not be run: .*No space left") as failed:
        run(tmp_path)
    assert str(folder.path) in failed.value.message
    assert "assay prune" in (failed.value.hint or "")
    run(tmp_path)


def test_a_report_that_cannot_be_written_does_not_hide_why_the_stage_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(tmp_path, "or-debug generate --output {folder} --types Z")
    fill(tmp_path / "pipeline", "report.md")
    with pytest.raises(StageFailed, match="first ended with exit code 2"):
        run(tmp_path)
    assert "no report is written: " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["pipeline.json", "report.md"])
def test_the_pipelines_own_files_are_told_by_their_folder(tmp_path: Path, name: str) -> None:
    opened(tmp_path)
    fill(tmp_path / "pipeline", name)
    with pytest.raises(AssayError, match="No space left") as failed:
        run(tmp_path)
    assert str(tmp_path / "pipeline") in failed.value.message
    assert "assay prune" in (failed.value.hint or "")
