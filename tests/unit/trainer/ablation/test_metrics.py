"""The metrics of an ablation, by hand-made samples."""

import pytest

from assay_shared.errors import ConfigError
from assay_trainer.ablation.metrics import check_metrics, is_lower_better, metric_of
from tests.support.evaluations import RIGHT, WRONG, make_sample


def test_each_metric_is_the_mean_over_scored_samples() -> None:
    turns = (("GET_IIS()", "Status: infeasible"), ("DROP(c1)", "Status: optimal, objective 3"))
    samples = [
        make_sample("t", 0, RIGHT, reward=1.0, turns=turns, components={"or_faithful": 1.0}),
        make_sample("t", 1, WRONG, reward=0.5, truncated=True, components={"or_faithful": 0.0}),
    ]
    wanted = {
        "pass@1": 0.5,
        "pass@2": 1.0,
        "reward": 0.75,
        "rr@1": 0.0,
        "rr@2": 0.5,
        "truncated": 0.5,
        "tokens": 100.0,
        "or_faithful": 0.5,
    }
    assert {name: metric_of(name)(samples) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"details": {"or_faithful": "optimal True, OP 0.5"}}, 1.0),
        ({"details": {"or_faithful": "optimal False, OP 0.0"}}, 0.0),
        ({"components": {"or_outcome": 100.0}}, 1.0),
        ({"components": {"or_outcome": -50.0}}, 0.0),
        ({}, None),
    ],
)
def test_a_recovery_by_the_last_reply_is_told_by_the_rubric(
    told: dict[str, object], found: float | None
) -> None:
    """The last reply of an episode has no observation."""
    turns = (("GET_IIS()", "Status: infeasible"), ("DROP(c1)", ""))
    sample = make_sample("t", 0, RIGHT, turns=turns, **told)
    assert metric_of("rr@2")([sample]) == found
    assert metric_of("rr@1")([sample]) == 0.0


def test_what_the_samples_cannot_tell_is_none() -> None:
    samples = [make_sample("t", 0, RIGHT, num_tokens=None)]
    assert metric_of("pass@2")(samples) is None
    assert metric_of("tokens")(samples) is None
    assert metric_of("or_faithful")(samples) is None


@pytest.mark.parametrize("name", ["pass@0", "pass@x", "", "a b", "-x"])
def test_a_name_that_cannot_be_a_metric_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a metric"):
        check_metrics([name])


def test_costs_are_better_if_they_are_lower() -> None:
    assert is_lower_better("tokens")
    assert not is_lower_better("pass@1")
    with pytest.raises(ConfigError, match="twice"):
        check_metrics(["pass@1", "pass@1"])
