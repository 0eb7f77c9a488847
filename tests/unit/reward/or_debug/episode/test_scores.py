"""Each metric against values worked out by hand."""

import dataclasses

import pytest

from assay_reward.or_debug.episode.metrics import EpisodeMetrics
from assay_reward.or_debug.episode.scores import (
    Overlap,
    meets,
    optimality_preservation,
    overlap,
    recovered_within,
    share_kept,
)

PERFECT = EpisodeMetrics(
    optimal_after=(False, True),
    optimal=True,
    objective=10.0,
    diagnosis=Overlap(1.0, 1.0, 1.0),
    diagnosis_iis=Overlap(0.5, 1.0, 0.5),
    claim_irreducible=False,
    optimality_preservation=1.0,
    rows_kept=1.0,
    bounds_kept=1.0,
    steps=2,
    invalid=0,
)


@pytest.mark.rule("each form of diagnosis accuracy has its own name")
@pytest.mark.parametrize(
    ("claimed", "true", "expected"),
    [
        ({"a"}, {"a"}, Overlap(1.0, 1.0, 1.0)),
        ({"a", "b"}, {"a"}, Overlap(1.0, 0.5, 0.5)),
        ({"a"}, {"a", "b"}, Overlap(0.5, 1.0, 0.5)),
        ({"a", "b"}, {"b", "c"}, Overlap(0.5, 0.5, 1 / 3)),
        ({"c"}, {"a"}, Overlap(0.0, 0.0, 0.0)),
        (set(), {"a"}, Overlap(0.0, 0.0, 0.0)),
    ],
)
def test_diagnosis_accuracy_is_recall_and_its_variants_have_names_of_their_own(
    claimed: set[str], true: set[str], expected: Overlap
) -> None:
    """An earlier system documented recall and computed Jaccard."""
    assert overlap(claimed, true) == expected


@pytest.mark.rule("each form of diagnosis accuracy has its own name")
def test_an_empty_truth_measures_nothing() -> None:
    """An earlier system gave 0.5 for it."""
    with pytest.raises(ValueError, match="empty"):
        overlap({"a"}, set())


def test_naming_everything_is_no_diagnosis() -> None:
    everything = [f"c{number}" for number in range(10)]
    assert not meets(overlap(everything, {"c3"}))
    assert meets(overlap({"c3", "c4"}, {"c3"}))
    assert not meets(overlap((), {"c3"}))


@pytest.mark.parametrize(
    ("optimal_after", "k", "recovered"),
    [
        ((), 5, False),
        ((True,), 1, True),
        ((False, True), 1, False),
        ((False, True, False), 2, True),
        ((False, False, False, False, False, True), 5, False),
    ],
)
def test_recovery_counts_replies(optimal_after: tuple[bool, ...], k: int, recovered: bool) -> None:
    assert recovered_within(optimal_after, k) is recovered


@pytest.mark.parametrize(
    ("recovered", "original", "expected"),
    [
        (100.0, 100.0, 1.0),
        (90.0, 100.0, 0.9),
        (110.0, 100.0, 0.9),
        (-90.0, -100.0, 0.9),
        (500.0, 100.0, 0.0),
        (None, 100.0, 0.0),
        (0.0, 0.0, 1.0),
        (1.0, 0.0, 0.0),
    ],
)
def test_optimality_preservation(recovered: float | None, original: float, expected: float) -> None:
    assert optimality_preservation(recovered, original) == pytest.approx(expected)


def test_a_root_cause_may_change_and_nothing_else() -> None:
    assert share_kept({"a", "b"}, ["a", "b", "bad"], {"bad"}) == 1.0
    assert share_kept({"a", "bad"}, ["a", "b", "bad"], {"bad"}) == 0.5
    assert share_kept(set(), ["bad"], {"bad"}) == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"optimal": False},
        {"optimality_preservation": 0.94},
        {"rows_kept": 0.9},
        {"bounds_kept": 0.9},
        {"diagnosis": Overlap(0.0, 0.0, 0.0)},
        {"diagnosis": Overlap(1.0, 0.1, 0.1)},
    ],
)
def test_faithful_recovery_needs_every_part(change: dict[str, object]) -> None:
    assert PERFECT.faithful
    assert not dataclasses.replace(PERFECT, **change).faithful  # type: ignore[arg-type]  # by name


def test_recovery_alone_is_not_faithful_recovery() -> None:
    """RR@5 cannot tell a repair from throwing rows away."""
    thrown_away = dataclasses.replace(PERFECT, rows_kept=0.5, optimality_preservation=0.2)
    assert thrown_away.rr(5)
    assert not thrown_away.faithful
    assert thrown_away.values()["rr@5"] == 1.0
    assert thrown_away.values()["faithful"] == 0.0
