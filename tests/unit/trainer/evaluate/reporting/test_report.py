"""report.md and report.html: hostile tags, and the number of tasks in a result."""

from pathlib import Path

import pytest

from assay_trainer.evaluate.evaluation import write_results
from assay_trainer.evaluate.reporting.report import curve_axes, headline, tasks_told
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol
from tests.support.evaluations import GREEDY, RIGHT, write_evaluation

BUDGET = Protocol.model_validate(
    {"kind": "budget", "budget_tokens": 250, "samples_per_task": 2, "temperature": 1.0}
)
SAMPLED = Protocol.model_validate({"kind": "sampled", "samples_per_task": 2, "temperature": 1.0})
HOSTILE = "<script>x</script>|\n| forged | 1 | 100% | 100% |\n# forged"


@pytest.mark.parametrize("place", ["name", "value"])
def test_a_hostile_tag_stays_in_its_cell(tmp_path: Path, place: str) -> None:
    def tags(task: str) -> dict[str, str]:
        return {HOSTILE: task} if place == "name" else {"level": HOSTILE if task == "a" else "x"}

    write_evaluation(tmp_path, {"s": {"a": [RIGHT], "b": [RIGHT]}}, tags=tags)

    write_results(EvaluationFolder(tmp_path))

    for name in ("report.md", "report.html"):
        assert "<script>x" not in (tmp_path / name).read_text()
    lines = (tmp_path / "report.md").read_text().splitlines()
    assert not [line for line in lines if line.startswith(("| forged", "# forged"))]
    (row,) = [line for line in lines if "script" in line]
    assert row.replace("\\|", "").count("|") == 5


@pytest.mark.parametrize("protocol", [GREEDY, BUDGET])
def test_a_result_tells_the_number_of_its_tasks(tmp_path: Path, protocol: Protocol) -> None:
    lost = [RIGHT, None] if protocol is BUDGET else [None]
    outcomes = {"a": [RIGHT], "b": [RIGHT], "c": lost}
    write_evaluation(tmp_path, {"s": outcomes}, protocol=protocol)

    found = write_results(EvaluationFolder(tmp_path))["s"].overall

    shown = headline(found)
    assert shown is not None
    assert shown.value == 1.0
    assert tasks_told(found) == "2 of 3"
    assert "| s | 2 of 3 | 100.0% [" in (tmp_path / "report.md").read_text()
    assert "<td>2 of 3</td>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("protocol", "axes"),
    [(SAMPLED, ("k", "pass@k")), (BUDGET, ("drawn tokens a task", "share solved"))],
)
def test_a_curve_tells_what_it_counts(
    tmp_path: Path, protocol: Protocol, axes: tuple[str, str]
) -> None:
    write_evaluation(tmp_path, {"s": {"a": [RIGHT, RIGHT]}}, protocol=protocol)
    found = write_results(EvaluationFolder(tmp_path))["s"]
    assert curve_axes(found) == axes
    assert f"| {axes[0]} | {axes[1]} |" in (tmp_path / "report.md").read_text()
    repaired = found.overall.model_copy(update={"repair": "its numbers"})
    along, solved = curve_axes(found.model_copy(update={"overall": repaired}))
    assert (along, solved) == (axes[0], f"{axes[1]} after the last round")
