"""Single tasks out of an evaluation's file."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import NotFound
from assay_trainer.browser.facts.task_places import places_of
from tests.unit.trainer.evaluation.test_report import make_evaluation


@pytest.mark.parametrize("indent", [None, 2])
def test_each_task_is_read_from_its_own_bytes(tmp_path: Path, indent: int | None) -> None:
    found = make_evaluation("after", 2).model_dump(mode="json")
    for number, one in enumerate(found["results"]):
        one["task_id"] = f'"é\N{SNOWMAN}]" {number}'
        one["samples"][0]["text"] = f'}}],"results":[{{\\ \U0001f600 {number}'
    file = tmp_path / "after.json"
    file.write_text(json.dumps(found, indent=indent, ensure_ascii=indent is None))
    places = places_of(file)
    assert len(places.places) == 12
    for number, one in enumerate(found["results"]):
        task = places.read(one["task_id"])
        assert task.samples[0].text == one["samples"][0]["text"]
        assert (task.prompt, task.id) == (f"<question> {number}", one["task_id"])


def test_a_missing_task_and_a_replaced_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "after.json"
    file.write_text(make_evaluation("after", 2).model_dump_json())
    places = places_of(file)
    with pytest.raises(NotFound, match="no task 'x'"):
        places.read("x")
    file.write_text("{}")
    with pytest.raises(NotFound, match="was replaced"):
        places.read("t1")
