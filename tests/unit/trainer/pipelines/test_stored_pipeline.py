"""A pipeline's folder belongs to one pipeline."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import Conflict, DatasetError, InvalidInput
from assay_trainer.pipelines.operation import PipelineOrder, plan_pipeline, run_pipeline
from assay_trainer.pipelines.stored_pipeline import read_stored


def written(place: Path, stage: str = "first", **further: Any) -> Path:
    """Return the file of a pipeline with a stage of a command."""
    stages = {stage: {"kind": "command", "words": ["tasks", "--num", "1"]}}
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(yaml.safe_dump({"stages": stages, **further}))
    return place


def run(file: Path, folder: Path) -> None:
    run_pipeline(PipelineOrder(file, folder=folder), ("first", None, ()))


@pytest.mark.parametrize(
    "do",
    [partial(run_pipeline, selection=(None, None, ())), partial(plan_pipeline, as_json=False)],
    ids=["run", "plan"],
)
@pytest.mark.parametrize(
    ("stage", "further"), [("first", {"name": "p1"}), ("other", {})], ids=["name", "stages"]
)
def test_the_folder_of_another_pipeline_is_refused(
    tmp_path: Path, do: Callable[[PipelineOrder], None], stage: str, further: dict[str, Any]
) -> None:
    folder = tmp_path / "runs" / "con"
    own = {"name": "con"} if further else {}
    run(written(tmp_path / "con.yaml", **own), folder)
    before = {one: one.read_bytes() for one in folder.glob("*.*")}
    other = PipelineOrder(written(tmp_path / "p1.yaml", stage, **further), folder=folder)
    names = r"pipeline 'con' of .*con\.yaml, .*p1\.yaml is the pipeline 'p1'" if further else "p1"
    with pytest.raises(Conflict, match=names) as refused:
        do(other)
    assert refused.value.field == "--folder"
    assert "another --folder" in (refused.value.hint or "")
    assert {one: one.read_bytes() for one in folder.glob("*.*")} == before


def test_a_moved_file_and_a_further_stage_are_the_same_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    run(written(tmp_path / "one.yaml"), folder)
    run(written(tmp_path / "elsewhere" / "two.yaml"), folder)
    (folder / "pipeline.json").write_text("{")
    run(written(tmp_path / "one.yaml"), folder)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"--folder: .* has config\.json, and is not the folder"):
        run(written(tmp_path / "one.yaml"), folder)
    inside = tmp_path / "inside"
    run(written(inside / "pipeline.yaml"), inside)


def test_a_record_without_the_inputs_of_its_stages_is_damaged(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    run(written(tmp_path / "one.yaml"), folder)
    file = folder / "pipeline.json"
    content = json.loads(file.read_text())
    del content["inputs"]
    file.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=r"inputs: .*pipeline\.json cannot be read"):
        read_stored(folder)
