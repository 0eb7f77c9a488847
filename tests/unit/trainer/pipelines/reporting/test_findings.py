"""What stages compared and repaired stands in every form of the report, without a gate."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.pipelines.reporting.tables import all_tables
from assay_trainer.pipelines.reporting.writing import write_report
from assay_trainer.pipelines.runner import Pipeline
from tests.support.pipelines import finish, open_pipeline, write_comparison_of, write_repaired

SETS = {"policy": "x", "sets": {"held": "held.jsonl"}}


def found_pipeline(tmp_path: Path) -> Pipeline:
    stages = {
        "before": {"kind": "evaluate", **SETS},
        "mended": {"kind": "repair", **SETS},
        "against": {"kind": "compare", "evaluations": ["before", "mended"]},
    }
    found = open_pipeline(tmp_path, stages)
    output = found.stages["against"].folder.output
    output.mkdir(parents=True)
    write_comparison_of(output, tmp_path, {"before": 30, "mended": 60}, ("1", "2"))
    finish(found, "against")
    write_repaired(found, "mended")
    finish(found, "mended")
    return found


def test_what_was_compared_and_repaired_stands_in_every_form(tmp_path: Path) -> None:
    page = write_report(found_pipeline(tmp_path))
    values = json.loads(page.with_suffix(".json").read_text())["tables"]
    (row,) = values["Compared"]
    assert [row[key] for key in ("stage", "arm", "set", "verdict")] == [
        *("against", "mended", "held", "BETTER")
    ]
    assert (row["baseline"], row["measured"], row["corrected p"]) == ("30.0%", "60.0%", "<0.001")
    assert row["difference (interval)"].startswith("+30.0 pp (+")
    (repaired,) = values["Repaired"]
    assert repaired["stage"] == "mended"
    assert repaired["accepted@multi"].startswith("100.0% (")
    assert repaired["recovery rate"].startswith("100.0% (")
    assert repaired["mean rounds"] == "2.00"
    assert repaired["tokens per solved"].startswith("100 (")
    assert repaired["best of n"].startswith("0.0% (")
    assert repaired["over best of n"].startswith("+100.0 pp (")
    assert repaired["verdict"] in ("PASS", "INCONCLUSIVE")
    for ending in (".md", ".txt", ".html"):
        text = page.with_suffix(ending).read_text()
        for word in ("BETTER", "+30.0 pp", "recovery rate", "+100.0 pp", repaired["verdict"]):
            assert word in text, (ending, word)


def test_a_damaged_comparison_is_named(tmp_path: Path) -> None:
    found = found_pipeline(tmp_path)
    file = found.stages["against"].folder.output / "comparison_data.json"
    file.write_text('{"rows": [{"set": 1}]}')
    with pytest.raises(DatasetError, match=r"comparison_data\.json cannot be read"):
        all_tables(found)
