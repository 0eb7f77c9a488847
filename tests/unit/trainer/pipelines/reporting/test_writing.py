"""The report of a pipeline: the same tables in each form, and the register."""

import json
import re
from pathlib import Path
from typing import Any

from assay_trainer.pipelines.reporting.tables import all_tables
from assay_trainer.pipelines.reporting.writing import write_report
from tests.support.pipelines import finish, open_pipeline, write_comparison_of, write_measured

GATE = {
    "metric": "accepted_at_1",
    "at_least": 0.6,
    "on_fail": "continue",
    "action": "see <b>qa</b>",
}
MINUTES = {"minimum": 30, "expected": 60, "maximum": 90}


def evaluate(policy: str) -> dict[str, Any]:
    sets = {"held": "held.jsonl"}
    return {"kind": "evaluate", "policy": policy, "sets": sets, "expected_minutes": MINUTES}


def report_of(tmp_path: Path) -> Path:
    stages = {
        "before": evaluate("x") | {"gates": [GATE]},
        "after": evaluate("y"),
        "compare": {"kind": "compare", "evaluations": ["before", "after"]},
        "rest": evaluate("z"),
    }
    levels = {
        "minimum": [{"done": "before"}],
        "full": [{"significant": "compare"}],
        "publication": [{"gate": "before"}, {"reproduce": "before"}],
    }
    found = open_pipeline(tmp_path, stages, levels=levels, price_per_hour=2.0)
    for name, right in (("before", 30), ("after", 60)):
        write_measured(found, name, right)
        finish(found, name, seconds=1800)
    output = found.stages["compare"].folder.output
    output.mkdir(parents=True)
    write_comparison_of(output, tmp_path, {"before": 30, "after": 60}, ("1", "2"))
    finish(found, "compare")
    return write_report(found)


def test_every_form_has_the_levels_the_numbers_and_the_sums(tmp_path: Path) -> None:
    page = report_of(tmp_path)
    values = json.loads(page.with_suffix(".json").read_text())
    assert [one["verdict"] for one in values["levels"]] == ["PASS", "PASS", "FAIL"]
    phases = values["tables"]["Time and money of phases"]
    assert phases[0]["expected"] == "1.00"
    assert phases[-1] == {
        **{"stage": "all", "minimum hours": "1.50", "expected": "3.00", "maximum": "4.50"},
        **{"measured": "1.02", "minimum money": "3.00", "expected money": "6.00"},
        **{"maximum money": "9.00", "money spent": "1.02"},
    }
    for ending in (".md", ".txt", ".html"):
        text = page.with_suffix(ending).read_text()
        for word in ("30.0%", "60.0%", "INCONCLUSIVE", "accepted_at_1", "3 of 4 stages are done"):
            assert word in text, (ending, word)
    html = page.read_text()
    assert "see &lt;b&gt;qa&lt;/b&gt;" in html
    assert "<b>qa" not in html + page.with_suffix(".md").read_text()
    assert len(re.findall('src="data:image/png;base64,', html)) == 3
    assert not re.search(r'(src|href)="(?!data:)', html), "the page needs no other file"


def test_the_register_has_digests_and_decisions(tmp_path: Path) -> None:
    page = report_of(tmp_path)
    register = json.loads((page.parent / "register.json").read_text())
    assert register["data"]["before"] == {"held": "5" * 64}
    assert set(register["stages"]) == {"before", "after", "compare"}
    outputs = register["stages"]["before"]["outputs"]
    assert re.fullmatch(r"[0-9a-f]{64}", outputs["held/samples.jsonl"])
    differing = register["stages"]["before"]["not_deterministic"]
    assert differing["held/samples.jsonl"] == "tells times, costs or paths"
    decided = [(one.get("stage"), one["verdict"]) for one in register["decisions"]]
    assert ("before", "FAIL") in decided
    assert {"git_commit", "packages"} <= register.keys()


def test_a_pipeline_that_has_not_begun_has_a_report(tmp_path: Path) -> None:
    found = open_pipeline(tmp_path, {"e": evaluate("x")})
    page = write_report(found)
    assert "0 of 1 stages are done" in page.read_text()
    assert [one.title for one in all_tables(found)] == [
        "Stages and costs",
        "Time and money of phases",
    ]
