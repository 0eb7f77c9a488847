"""An overruling holds for its gate, its bound and its number, and for no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import NotFound
from assay_trainer.pipelines.reporting.state import stage_rows
from assay_trainer.pipelines.reporting.tables import all_tables
from assay_trainer.pipelines.runner import GateStopped, Pipeline, PipelineRunner
from assay_trainer.stop import Stop
from tests.support.pipelines import finish, open_pipeline

GATE = {"metric": "num_held_out", "at_least": 400}


def opened(place: Path, *gates: dict[str, Any], words: str = "tasks --num 1") -> Pipeline:
    return open_pipeline(
        place, {"p": {"kind": "command", "words": words.split(), "gates": [*gates]}}
    )


def measured(place: Path, *gates: dict[str, Any], **further: Any) -> Pipeline:
    """Return a pipeline whose stage measured 84 held-out tasks, and 300 for training."""
    found = opened(place, *gates, **further)
    write_numbers(found, num_held_out=84, num_train=300)
    finish(found, "p")
    return found


def write_numbers(found: Pipeline, **numbers: int) -> None:
    output = found.stages["p"].folder.output
    output.mkdir(parents=True, exist_ok=True)
    (output / "metrics.json").write_text(json.dumps({"overall": numbers}))


def run(pipeline: Pipeline) -> None:
    PipelineRunner(pipeline, Stop(), lambda name, line: None).run(["p"])


def tables(pipeline: Pipeline) -> dict[str, list[dict[str, str]]]:
    return {one.title: one.as_values() for one in all_tables(pipeline)}


@pytest.mark.parametrize(
    "other",
    [
        {"metric": "num_train", "at_least": 1000},
        GATE | {"at_least": 500},
    ],
)
def test_a_new_or_a_changed_gate_stops_after_another_was_overruled(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    (gate,) = measured(tmp_path, GATE).overrule("p", "the set is small")
    assert (gate.metric, gate.bound, gate.value) == ("num_held_out", "at least 400", 84)
    run(opened(tmp_path, GATE))
    with pytest.raises(GateStopped, match=other["metric"]):
        run(opened(tmp_path, other))
    with pytest.raises(GateStopped, match=other["metric"]):
        run(opened(tmp_path, GATE, other))
    run(opened(tmp_path, GATE))


def test_another_number_stops_again(tmp_path: Path) -> None:
    found = measured(tmp_path, GATE)
    found.overrule("p", "the set is small")
    write_numbers(found, num_held_out=12, num_train=300)
    with pytest.raises(GateStopped, match="12: FAIL"):
        run(opened(tmp_path, GATE))


def test_all_gates_that_stop_are_told_and_overruled_once(tmp_path: Path) -> None:
    both = (GATE, {"metric": "num_train", "at_least": 1000})
    found = measured(tmp_path, *both)
    with pytest.raises(GateStopped, match=r"num_held_out .* 84: FAIL; .*num_train .* 300: FAIL"):
        run(found)
    assert len(found.overrule("p", "both are small")) == 2
    run(found)
    with pytest.raises(NotFound, match="no gate of a stage 'p' stops"):
        found.overrule("p", "again")


def test_reports_name_the_gate_and_keep_reasons_for_older_inputs_apart(tmp_path: Path) -> None:
    measured(tmp_path, GATE).overrule("p", "a first reason")
    found = measured(tmp_path, GATE, words="tasks --num 2")
    assert stage_rows(found)[0][2] == "done FAIL"
    assert "Overruled" not in tables(found)
    found.overrule("p", "a second reason")
    row = {"stage": "p", "set": "", "number": "num_held_out", "rule": "at least 400"}
    row |= {"measured": "84", "verdict": "FAIL"}
    assert tables(found)["Overruled"] == [row | {"reason": "a second reason"}]
    assert tables(found)["Overruled before"] == [row | {"reason": "a first reason"}]
    assert stage_rows(found)[0][2] == "done FAIL, overruled"
