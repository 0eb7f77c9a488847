"""Changes by another scoring, by hand."""

import pytest

from assay_trainer.rescore.comparison import Rescored, compare, summary
from assay_trainer.rescore.stored_answers import Mark, StoredGroup
from tests.support.fakes import FAILURE, make_task


def marks(*values: float | None) -> tuple[Mark, ...]:
    return tuple(
        Mark(None) if v is None else Mark(v, "accepted" if v == 1 else "wrong_answer")
        for v in values
    )


def rescored(
    key: str,
    before: tuple[float | None, ...],
    after: tuple[float | None, ...],
    scorer: str = "old@1",
    source: str = "rollouts",
) -> Rescored:
    answers = tuple(f"answer {at}" for at in range(len(before)))
    stored = StoredGroup(source, key, make_task(key), answers, marks(*before), scorer)
    failures = (FAILURE,) * after.count(None)
    return Rescored(stored, marks(*after), "new@2", failures)


GROUPS = [
    rescored("kept", (0.0, 0.5, 1.0), (0.0, 0.5, 1.0)),
    rescored("turned", (0.0, 0.5, 1.0), (1.0, 0.5, 0.0)),
    rescored("gained", (0.0, 0.0, None), (1.0, 0.0, 1.0), source="before"),
    rescored("lost", (0.0, 1.0, 1.0), (1.0, 1.0, None), scorer="older@0"),
]


def test_only_samples_with_both_rewards_are_compared() -> None:
    found = compare("run", "new", GROUPS, {"repeated": 3}).all
    assert (found.num_samples, found.num_compared) == (12, 10)
    assert found.failures == {"sandbox": 1}
    assert found.before is not None
    assert found.after is not None
    assert found.before.mean == pytest.approx(4.0 / 10)
    assert found.after.mean == pytest.approx(6.0 / 10)
    assert found.mean_change == pytest.approx(0.2)
    assert found.share_changed == pytest.approx(4 / 10)


def test_outcomes_say_what_became_what() -> None:
    assert compare("run", None, GROUPS, {}).all.outcomes == {
        "accepted": {"accepted": 2, "wrong_answer": 1, "failed": 1},
        "failed": {"accepted": 1},
        "wrong_answer": {"wrong_answer": 4, "accepted": 3},
    }


def test_groups_gain_and_lose_their_signal() -> None:
    groups = compare("run", None, GROUPS, {}).all.groups
    assert groups is not None
    assert groups.num_groups == 4
    assert (groups.num_with_signal_before, groups.num_with_signal_after) == (3, 3)
    assert (groups.num_gained_signal, groups.num_lost_signal) == (1, 1)
    assert groups.num_correlated == 2, "a group without a signal has no ranks"
    assert groups.rank_correlation_mean == pytest.approx(0.0)


def test_advantages_turn_over() -> None:
    found = compare("run", None, GROUPS[:2], {}).all.advantages
    assert found is not None
    # (1 - 0.5) / (0.5 + 1e-4) is just below 1: two samples of six go from -1 to 1 or back.
    assert found.largest == pytest.approx(2.0, abs=1e-3)
    assert found.mean_absolute == pytest.approx(4 / 6, abs=1e-3)
    assert found.share_of_other_sign == pytest.approx(0.5)


def test_scorers_and_sources_are_told_apart() -> None:
    found = compare("run", "new", GROUPS, {})
    assert {name: one.num_samples for name, one in found.by_scorer.items()} == {
        "old@1": 9,
        "older@0": 3,
    }
    assert set(found.by_source) == {"rollouts", "before"}
    assert found.scorers == ["new@2"]


def test_without_a_single_pair_there_is_nothing_to_compare() -> None:
    found = compare("run", None, [rescored("a", (1.0, 0.0), (None, None))], {})
    assert found.all.num_compared == 0
    assert found.all.before is None
    assert found.all.groups is None
    texts = dict(summary(found))
    assert texts["failed"] == "2 sandbox: without a new reward, none of them 0"
    assert texts[""] == "sandbox: planted"


def test_the_summary_names_what_changed() -> None:
    texts = dict(summary(compare("run", "new", GROUPS, {"repeated": 3})))
    assert texts["answers"] == "12, 10 with a reward before and after"
    assert texts["left out"] == "3 repeated"
    assert texts["reward"].startswith("0.400 (std ")
    assert texts["signal"] == "3 -> 3 of 4 groups; 1 gained it, 1 lost it"
