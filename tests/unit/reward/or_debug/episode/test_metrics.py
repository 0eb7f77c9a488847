"""The metrics of episodes on a model small enough to work out by hand."""

import pytest

from assay_reward.or_debug.episode.episode import Episodes
from assay_reward.or_debug.episode.metrics import EpisodeMetrics, claim_irreducible, measure
from tests.support.or_debug.models import only_integers_fail
from tests.support.or_debug.planted import BROKEN, INSTANCE, OPTIMUM, REPAIR


def metrics(*calls: str) -> EpisodeMetrics:
    turns = tuple(call if "Action" in call else f"Action: {call}" for call in calls)
    return measure(INSTANCE, Episodes(5.0).replay(BROKEN, turns, 8))


def test_a_faithful_recovery() -> None:
    found = metrics(*REPAIR)
    assert found.faithful
    assert found.objective == pytest.approx(OPTIMUM)
    assert (found.steps, found.invalid) == (3, 0)
    assert [found.rr(k) for k in (1, 2, 5)] == [False, True, True]
    assert (found.diagnosis.recall, found.diagnosis.precision) == (1.0, 1.0)
    assert (found.diagnosis_iis.recall, found.diagnosis_iis.precision) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (("DROP(c1)", "SUBMIT(c3)"), "a row that was right is gone"),
        (("RELAX(c1, 1000)", "SUBMIT(c3)"), "a row that was right is wider"),
        (("DROP(c3)", "UPDATE_BOUNDS(x1, 0, 19)", "SUBMIT(c3)"), "a bound that was right changed"),
        (("RELAX(c3, 2)", "SUBMIT(c1)"), "another row is blamed"),
        (("DROP(c3)", "SUBMIT(c1, c2, c3, c4, c5)"), "every row is blamed"),
        (("DROP(c3)", "RESET()", "SUBMIT(c3)"), "it is infeasible again"),
        (("SUBMIT(c3)",), "nothing was repaired"),
    ],
)
def test_recovery_is_not_faithful_where(calls: tuple[str, ...], why: str) -> None:
    assert not metrics(*calls).faithful, why


def test_dropping_the_wrong_row_recovers_and_says_what_it_cost() -> None:
    found = metrics("DROP(c1)", "SUBMIT()")
    assert found.rr(1)
    assert found.optimal
    assert found.rows_kept == pytest.approx(3 / 4)
    assert found.diagnosis.recall == 0.0
    assert found.optimality_preservation < 0.95


@pytest.mark.rule("the policy sees the whole model, over as many turns as there really were")
def test_invalid_turns_are_steps() -> None:
    found = metrics("nonsense()", "DROP(c3)")
    assert (found.steps, found.invalid) == (2, 1)
    assert [found.rr(k) for k in (1, 2)] == [False, True]


def test_without_an_optimum_nothing_is_preserved() -> None:
    assert metrics("GET_IIS()").optimality_preservation == 0.0


def test_what_is_not_known_is_not_among_the_values() -> None:
    assert "claim_irreducible" not in metrics(*REPAIR).values()


@pytest.mark.parametrize(
    ("claim", "irreducible"),
    [
        (("c1", "c3"), True),
        (("c3", "c1"), True),
        (("c1",), False),
        (("c1", "c2", "c3"), False),
        (("c1", "c3", "x1"), False),
        ((), False),
    ],
)
def test_a_claim_is_judged_by_the_solver(claim: tuple[str, ...], irreducible: bool) -> None:
    assert claim_irreducible(BROKEN, claim, 5.0) is irreducible


def test_columns_may_be_part_of_a_claim() -> None:
    model = BROKEN.with_row(BROKEN.row("c4").model_copy(update={"lower": 7.0, "upper": 9.0}))
    assert claim_irreducible(model, ("c4", "x3"), 5.0) is True
    assert claim_irreducible(only_integers_fail(), ("odd", "idle"), 5.0) is False


def test_a_claim_that_no_one_can_judge_in_time_is_unknown() -> None:
    assert claim_irreducible(BROKEN, ("c1", "c3"), 0.0) is None
