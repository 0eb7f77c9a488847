"""The summary to paste."""

from collections.abc import Sequence
from pathlib import Path

from assay_trainer.comparison.comparing import ComparisonData, ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import read_arm
from assay_trainer.comparison.report.summary import summary_of, verdict_sentence
from tests.support.evaluations import RIGHT, WRONG, Outcomes, write_evaluation


def compared(
    tmp_path: Path, metrics: Sequence[str] = ("pass@1",), **numbers: tuple[int, int]
) -> ComparisonData:
    """Return the comparison of sets of 150 tasks with these numbers right before and after."""
    arms = []
    for side, name in enumerate(("base", "sft")):
        sets: dict[str, dict[str, Outcomes]] = {
            one: {f"t{i}": [RIGHT if i < right[side] else WRONG] for i in range(150)}
            for one, right in numbers.items()
        }
        arms.append(read_arm(None, [str(write_evaluation(tmp_path / name, sets))]))
    return compare_arms(arms[0], arms[1:], ComparisonPlan(metrics=metrics))


def test_each_verdict_names_its_sets(tmp_path: Path) -> None:
    data = compared(tmp_path, gsm8k=(50, 100), mbpp=(100, 50), arc=(70, 72))
    assert verdict_sentence(data, "sft") == (
        "BETTER and WORSE: by pass@1, sft is better than base on gsm8k; worse than base on mbpp. "
        "arc: inconclusive."
    )


def test_times_alone_are_told_as_not_tested(tmp_path: Path) -> None:
    data = compared(tmp_path, ["judging_s"], arc=(70, 72))
    assert verdict_sentence(data, "sft") == "NOT TESTED: judging time a sample of sft and base."


def test_without_a_verdict_the_summary_says_what_could_be_found(tmp_path: Path) -> None:
    text = summary_of(compared(tmp_path, arc=(70, 72)))
    assert text.startswith("INCONCLUSIVE: by pass@1, sft cannot be told from base on arc.")
    assert "arc: pass@1 46.7% -> 48.0%, +1.3 pp" in text
    assert "only 5.3 pp or more would usually be found" in text
