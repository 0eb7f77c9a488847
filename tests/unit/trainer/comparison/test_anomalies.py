"""Rules for signs of trouble, on intervals."""

from pathlib import Path

import pytest

from assay_shared.errors import ConfigError
from assay_shared.types import Status
from assay_trainer.comparison.anomalies import DEFAULT_RULES, RuleResult, RuleState, read_rules
from assay_trainer.comparison.comparing import ComparisonPlan, compare_arms
from assay_trainer.comparison.loading import read_arm
from tests.support.evaluations import RIGHT, WRONG, Outcomes, write_evaluation

Counts = dict[Status, int]
HOLDS, DOES_NOT, OPEN = RuleState


def found(
    tmp_path: Path, before: Counts, after: Counts, rules: Path = DEFAULT_RULES
) -> list[RuleResult]:
    """Return the rules' findings on HumanEval with these outcomes."""
    arms = []
    for name, counts in (("before", before), ("after", after)):
        outcomes = [status for status, number in counts.items() for _ in range(number)]
        tasks: dict[str, Outcomes] = {f"t{i}": [one] for i, one in enumerate(outcomes)}
        arms.append(read_arm(None, [str(write_evaluation(tmp_path / name, {"humaneval": tasks}))]))
    return compare_arms(arms[0], arms[1:], ComparisonPlan(rules=read_rules(rules))).rules


def states(results: list[RuleResult]) -> dict[str, RuleState]:
    return {one.name: one.state for one in results}


SYNTAX = Status.SYNTAX_ERROR


def test_a_policy_that_forgot_shows_it_with_cause_and_remedy(tmp_path: Path) -> None:
    results = found(
        tmp_path,
        {RIGHT: 100, WRONG: 40, SYNTAX: 24},
        {WRONG: 100, RIGHT: 40, SYNTAX: 24},
    )
    assert states(results)["pass@1 falls on a regression set"] is HOLDS
    assert states(results)["nothing changes"] is DOES_NOT
    fallen = next(one for one in results if one.state is HOLDS)
    assert fallen.cause == "catastrophic forgetting"
    assert "learning rate" in fallen.remedy


def test_syntax_errors_that_rise_are_told(tmp_path: Path) -> None:
    results = found(tmp_path, {RIGHT: 164}, {RIGHT: 120, SYNTAX: 44})
    assert states(results)["syntax errors rise"] is HOLDS
    assert "execution success hardly rises" not in states(results), "there was no room to rise"


def test_a_small_fall_is_neither_excluded_nor_shown(tmp_path: Path) -> None:
    """164 tasks cannot tell a fall of 5 points from one of 4."""
    results = found(
        tmp_path,
        {RIGHT: 100, WRONG: 60, SYNTAX: 4},
        {WRONG: 8, RIGHT: 92, Status.RUNTIME_ERROR: 64},
    )
    assert states(results)["pass@1 falls on a regression set"] is OPEN


def test_execution_that_hardly_rises_is_told(tmp_path: Path) -> None:
    counts = {RIGHT: 100, WRONG: 100, SYNTAX: 300}
    results = found(tmp_path, counts, counts)
    assert states(results)["execution success hardly rises"] is HOLDS
    assert states(results)["nothing changes"] is HOLDS


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{name: a, cause: b, remedy: c}", "a rule has one of"),
        (
            "{name: a, cause: b, remedy: c, metric: pass@1, rises_by_more_than: 2}",
            "must|valid string|amount",
        ),
        ("{name: a, cause: b, remedy: c, rises_by_more_than: 2pp}", "metric goes with a change"),
        (
            "{name: a, cause: b, remedy: c, metric: speed, rises_by_more_than: 2pp}",
            "no metric 'speed'",
        ),
        (
            "{name: a, cause: b, remedy: c, metric: tokens, rises_by_more_than: 2pp}",
            "tokens change by",
        ),
        ("{name: a, cause: b, remedy: c, nothing_changes_by: 2%}", "in points"),
        ("{name: a, cause: b, remedi: c, nothing_changes_by: 2pp}", "did you mean remedy"),
    ],
)
def test_a_wrong_rule_is_refused(tmp_path: Path, rule: str, message: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(f"rules: [{rule}]")
    with pytest.raises(ConfigError) as raised:
        read_rules(path)
    assert any(one in str(raised.value) for one in message.split("|"))


def test_a_rule_on_a_time_is_undecidable(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "rules: [{name: slow, metric: judging_s, rises_by_more_than: 10%, cause: b, remedy: c}]"
    )
    assert states(found(tmp_path, {RIGHT: 20}, {RIGHT: 20}, path)) == {"slow": OPEN}


def test_a_rule_that_could_not_be_checked_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    end = "rises_by_more_than: 2pp, cause: b, remedy: c}"
    path.write_text(
        f"rules:\n- {{name: other, sets: [mbpp], metric: pass@1, {end}\n"
        f"- {{name: full, metric: pass@1, baseline_at_most: 10%, {end}\n"
        f"- {{name: good, metric: pass@1, {end}\n"
    )
    arms = [
        read_arm(None, [str(write_evaluation(tmp_path / name, {"m": {"t": [RIGHT], name: [one]}}))])
        for name, one in (("before", RIGHT), ("after", WRONG))
    ]
    plan = ComparisonPlan(rules=read_rules(path), tells_unused_rules=True)
    told = [one for one in compare_arms(arms[0], arms[1:], plan).notes if "The rule" in one]
    assert told == [
        "The rule 'other' was not checked: it names mbpp, and the sets are m.",
        "The rule 'full' was not checked: no set that it names has the metric on both sides, and a "
        "baseline with room.",
    ]


def test_a_file_without_rules_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("rules: []")
    with pytest.raises(ConfigError, match="rules: .*at least 1"):
        read_rules(tmp_path / "rules.yaml")


def test_own_rules_replace_the_default_ones(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "rules: [{name: falls, sets: ['human*'], metric: pass@1, falls_by_more_than: 0pp, "
        "cause: b, remedy: c}]"
    )
    results = found(tmp_path, {RIGHT: 164}, {WRONG: 164}, path)
    assert states(results) == {"falls": HOLDS}
