"""Expected changes: reading them, and their verdicts on intervals."""

from pathlib import Path

import pytest

from assay_shared.errors import ConfigError
from assay_shared.statistics.interval import Interval
from assay_trainer.comparison.anomalies import AnomalyRule, RuleState
from assay_trainer.comparison.comparing import ComparisonPlan, compare_arms
from assay_trainer.comparison.expectations import (
    ExpectationResult,
    ExpectationVerdict,
    read_expectations,
    verdict_of,
)
from assay_trainer.comparison.loading import read_arm
from assay_trainer.comparison.report.words import found_text
from tests.support.evaluations import RIGHT, WRONG, Outcomes, write_evaluation

MET, NOT_MET, UNDECIDABLE = ExpectationVerdict


def judged(tmp_path: Path, text: str, num_before: int, num_after: int) -> list[ExpectationResult]:
    """Return the verdicts with these numbers of 200 tasks right before and after."""
    (tmp_path / "expected.yaml").write_text(text)
    arms = []
    for name, number in (("before", num_before), ("after", num_after)):
        tasks: dict[str, Outcomes] = {f"t{i}": [RIGHT if i < number else WRONG] for i in range(200)}
        sets = {"mbpp": tasks} if name == "before" else {"mbpp": tasks, "big": tasks}
        arms.append(read_arm(None, [str(write_evaluation(tmp_path / name, sets))]))
    plan = ComparisonPlan(expectations=read_expectations(tmp_path / "expected.yaml"))
    return compare_arms(arms[0], arms[1:], plan).expectations


@pytest.mark.parametrize(
    ("entry", "after", "verdict"),
    [
        ("{direction: up, at_least: 10pp}", 160, MET),
        ("{direction: up, at_least: 10pp}", 110, NOT_MET),
        ("{direction: up, at_least: 10pp}", 121, UNDECIDABLE),
        ("{direction: up, at_least: 10pp, at_most: 20pp}", 180, NOT_MET),
        ("{direction: up, at_least: 40%}", 180, MET),
        ("{direction: down, at_least: 10pp}", 60, MET),
        ("{direction: down, at_least: 30%}", 99, NOT_MET),
        ("{direction: same, within: 5pp}", 100, MET),
        ("{direction: same, within: 1pp}", 100, UNDECIDABLE),
        ("{direction: same, within: 2pp}", 130, NOT_MET),
        ("{direction: not_down, within: 5pp}", 130, MET),
        ("{direction: not_down, within: 5pp}", 70, NOT_MET),
        ("{direction: not_up, within: 2pp}", 70, MET),
    ],
)
def test_an_expectation_is_decided_by_the_whole_interval(
    tmp_path: Path, entry: str, after: int, verdict: ExpectationVerdict
) -> None:
    (found,) = judged(tmp_path, f"mbpp.pass@1: {entry}", 100, after)
    assert found.verdict is verdict, found
    assert (found.tasks_to_decide is not None) <= (verdict is UNDECIDABLE)


@pytest.mark.parametrize(("right", "lost"), [(160, 2), (125, 75)])
def test_an_expectation_is_met_only_whatever_failed_samples_would_have_been(
    tmp_path: Path, right: int, lost: int
) -> None:
    (tmp_path / "expected.yaml").write_text("mbpp.pass@1: {direction: up, at_least: 10pp}")
    before: dict[str, Outcomes] = {f"t{i}": [RIGHT if i < 100 else WRONG] for i in range(200)}
    after: dict[str, Outcomes] = {
        f"t{i}": [RIGHT if i < right else None if i >= 200 - lost else WRONG] for i in range(200)
    }
    arms = [
        read_arm(None, [str(write_evaluation(tmp_path / name, {"mbpp": tasks}))])
        for name, tasks in (("before", before), ("after", after))
    ]
    rule = AnomalyRule(name="r", metric="pass@1", rises_by_more_than="10pp", cause="c", remedy="r")
    plan = ComparisonPlan(expectations=read_expectations(tmp_path / "expected.yaml"), rules=(rule,))
    found = compare_arms(arms[0], arms[1:], plan)
    (row,) = (one for one in found.rows if one.metric == "pass@1")
    assert row.difference is not None
    assert (row.difference.low or 0) > 0.1
    (expected,), (applied,) = found.expectations, found.rules
    if lost == 2:
        assert (expected.verdict, applied.state) == (MET, RuleState.HOLDS)
        return
    assert (expected.verdict, applied.state) == (UNDECIDABLE, RuleState.UNDECIDABLE)
    assert found_text(expected).endswith("; the failed samples decide")


@pytest.mark.parametrize(
    ("entry", "after", "is_beyond"),
    [
        ("{direction: up, at_least: 10pp, at_most: 20pp}", 180, True),
        ("{direction: up, at_least: 10pp, at_most: 20pp}", 100, False),
        ("{direction: down, at_least: 10%, at_most: 20%}", 20, True),
        ("{direction: down, at_least: 10%, at_most: 20%}", 180, False),
        ("{direction: same, within: 2pp}", 180, False),
    ],
)
def test_a_change_beyond_at_most_is_not_met_and_told(
    tmp_path: Path, entry: str, after: int, is_beyond: bool
) -> None:
    (found,) = judged(tmp_path, f"mbpp.pass@1: {entry}", 100, after)
    assert found.verdict is NOT_MET
    assert found.is_beyond is is_beyond
    assert found_text(found).endswith("; beyond at_most") is is_beyond


def test_an_open_expectation_says_how_many_tasks_would_decide(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, "mbpp.accepted_at_1: {direction: same, within: 1pp}", 100, 100)
    assert found.tasks_to_decide is not None
    assert found.tasks_to_decide > 200


def test_an_expected_time_is_undecidable(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, "mbpp.judging_s: {direction: same, within: 50%}", 100, 150)
    assert found.verdict is UNDECIDABLE
    assert found.reason == "it moves with the machine and its load, so no test can tell"


def test_a_set_without_a_baseline_is_undecidable(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, "big.pass@1: {direction: up}", 100, 150)
    assert found.verdict is UNDECIDABLE
    assert found.reason == "the baseline has no such number"


def test_intervals_that_touch_a_bound_from_inside_are_met() -> None:
    assert verdict_of(Interval(0.0, -0.02, 0.02), -0.02, 0.02) is MET
    assert verdict_of(Interval(0.03, 0.01, 0.05), -0.02, 0.02) is UNDECIDABLE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mbpp.pass@1: {direction: up, at_least: 2}", "mbpp.pass@1.at_least: 2 is not an amount"),
        ("mbpp.pass@1: {direction: up, at_least: '0.02'}", "2pp is two points of a share"),
        ("mbpp.pass@1: {direction: up, atleast: 2pp}", "did you mean at_least"),
        ("mbpp.pass@1: {direction: sideways}", "mbpp.pass@1.direction"),
        ("mbpp.pass@1: {direction: same}", "direction same needs `within`"),
        ("mbpp.pass@1: {direction: up, within: 2pp}", "within goes with the directions same"),
        ("mbpp.pass@1: {direction: up, at_least: 5pp, at_most: 2pp}", "must be above at_least"),
        ("mbpp.pass@1: {direction: up, at_least: 5pp, at_most: 50%}", "different kinds"),
        ("mbpp.passat1: {direction: up}", "there is no metric 'passat1'"),
        ("mbpp.tokens: {direction: up, at_least: 5pp}", "tokens change by tokens"),
        ("mbpp.pass@1: {direction: same, within: 200pp}", "no share changes by more than 200pp"),
        ("mbpp.tokens_per_solved: {direction: up, at_least: 5 tokens}", "changes relatively"),
        ("mbpp: {direction: up}", "does not name a metric"),
        ("mbp.pass@1: {direction: up}", "did you mean mbpp?"),
        ("mbpp[level=easy].pass@1: {direction: up}", "--by TAG"),
        ("mbpp.pass@1: up", "mbpp.pass@1"),
        ("mbpp.pass@1: {direction: up}\nmbpp.pass@1: {direction: down}", "line 2 has the key"),
        ("{}", "has no expectation"),
        ("- a", "must hold a mapping"),
    ],
)
def test_a_wrong_entry_names_its_key_and_what_would_be_right(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        judged(tmp_path, text, 100, 150)
    assert message in str(raised.value)
