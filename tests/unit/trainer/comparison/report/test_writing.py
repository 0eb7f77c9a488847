"""The files of a comparison: complete, escaped, and computed again from what lies next to them."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from assay_shared.errors import InvalidInput
from assay_shared.types import Status
from assay_trainer.comparison.anomalies import DEFAULT_RULES, read_rules
from assay_trainer.comparison.arms import ComparedArm
from assay_trainer.comparison.comparing import ComparisonData, ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import read_arm
from assay_trainer.comparison.report.writing import check_output, write_comparison
from assay_trainer.evaluation.records.sample_record import SampleRecord
from tests.support.evaluations import RIGHT, WRONG, Outcomes, make_sample, write_evaluation

DOCS = Path(__file__).parents[5] / "docs" / "comparison.md"
HOSTILE = "<script>alert(1)</script>|\u202e`*"


def hostile_sample(task_id: str, index: int, outcome: Status | None, **_: object) -> SampleRecord:
    ratio = None if outcome is None else float(outcome is RIGHT)
    number = int(task_id[1:])
    return make_sample(
        task_id, index, outcome, text=HOSTILE, pass_ratio=ratio, num_tokens=100 + number
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ComparisonData]:
    folder = tmp_path_factory.mktemp("comparison")
    arms: list[ComparedArm] = []
    for name, num_right in (("base", 40), (f"sft{HOSTILE}", 90)):
        tasks: dict[str, Outcomes] = {
            f"t{i}": [RIGHT if i < num_right else WRONG] for i in range(120)
        }
        tasks |= {"t200": [Status.SYNTAX_ERROR], "t201": [None]}
        path = write_evaluation(
            folder / name[:4],
            {"mbpp$x$": tasks},
            sample=hostile_sample,
            prompt=lambda id_: f"{HOSTILE} {id_}",
        )
        arms.append(read_arm(name, [str(path)]))
    data = compare_arms(arms[0], arms[1:], ComparisonPlan(rules=read_rules(DEFAULT_RULES)))
    write_comparison(data, arms, folder / "report")
    return folder / "report", data


def test_a_report_replaces_a_report_and_nothing_else(tmp_path: Path) -> None:
    check_output(tmp_path / "new")
    check_output(tmp_path)
    (tmp_path / "summary.txt").write_text("of a report that was interrupted")
    (tmp_path / ".comparison.html.partial").write_text("")
    check_output(tmp_path)
    other = write_evaluation(tmp_path / "sft", {"m": {"t": [RIGHT]}})
    with pytest.raises(
        InvalidInput, match=r"--output: .*sft has evaluation.json, and is not a report"
    ):
        check_output(other)
    with pytest.raises(InvalidInput, match="is a file"):
        check_output(other / "evaluation.json")
    (tmp_path / "comparison_data.json").write_text("{}")
    check_output(tmp_path)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_shows_hostile_texts_and_needs_no_network(
    report: tuple[Path, ComparisonData],
) -> None:
    text = (report[0] / "comparison.html").read_text()
    page = _Tags()
    page.feed(text)
    assert "script" not in page.tags
    assert "&lt;script&gt;" in text
    assert "\u202e" not in text
    assert page.tags.count("img") >= 3
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert text.count("<details>") == 3, "three answers turned right are shown, and none wrong"


def test_the_table_stays_a_table(report: tuple[Path, ComparisonData]) -> None:
    text = (report[0] / "comparison_table.md").read_text()
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    assert "<script>" not in html
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    widths = {len(re.findall(r"<t[dh]", row)) for row in rows}
    assert widths <= {5, 8, 9, 10}
    assert html.count("+40.0 pp") or html.count("+41.3 pp")


def test_the_data_are_complete_and_finite(report: tuple[Path, ComparisonData]) -> None:
    text = (report[0] / "comparison_data.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    data = json.loads(text)
    assert len(data["rows"]) == len(report[1].rows)
    for seeds in data["evaluations"].values():
        for one in seeds:
            assert len(one["files_digest"]) == 64
            assert one["policy_digest"]
            assert one["sets"]["mbpp$x$"]["num_failed"] == 1
    assert data["notes"] == report[1].notes


def test_the_summary_begins_with_the_verdict(report: tuple[Path, ComparisonData]) -> None:
    text = (report[0] / "summary.txt").read_text()
    assert text.startswith("BETTER: by pass@1, sft")
    assert "121 tasks" in text
    assert "1 of 122 samples of base (0.8%) have no score" in text
    assert "tasks of mbpp$x$ left out: 1 without a score on a side" in text


def test_the_script_of_the_docs_computes_every_row_again(
    report: tuple[Path, ComparisonData], tmp_path: Path
) -> None:
    found = re.search(r"```python\n# recompute\.py\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    assert sum(bool(line) for line in found[1].splitlines()) <= 21
    script = tmp_path / "recompute.py"
    script.write_text(found[1])
    shown = subprocess.run(
        [sys.executable, str(script), str(report[0])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    rows = [row for row in report[1].rows if row.test or row.relative]
    assert shown.count(" True\n") == len(rows) > 6
    assert "False" not in shown
