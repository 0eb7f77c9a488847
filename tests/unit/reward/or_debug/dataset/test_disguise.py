from collections import Counter
from random import Random

import pytest

from assay_reward.or_debug.dataset.disguise import disguise
from assay_reward.or_debug.dataset.draft import Draft, with_wrong_rows
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.generate.making import make
from assay_reward.or_debug.models.model import ModelRow
from assay_reward.or_debug.models.solver import solve
from tests.support.or_debug.models import feasible

DRAWS = 3000


def draft() -> Draft:
    wrong = ModelRow(name="c3", coefficients={"x": 3, "y": 2}, lower=90)
    return with_wrong_rows(feasible(), [wrong])


def test_a_mistake_can_stand_anywhere_equally_often() -> None:
    """Three rows: each place a third of the time, within five standard deviations."""
    counts: Counter[str] = Counter()
    for seed in range(DRAWS):
        counts.update(disguise(Random(seed), draft(), share_negated=0.3).root_cause)
    assert set(counts) == {"c1", "c2", "c3"}
    assert all(abs(count - DRAWS / 3) < 5 * (DRAWS * 2 / 9) ** 0.5 for count in counts.values())


def test_a_disguise_changes_no_model() -> None:
    """Shuffled, renamed and partly negated, the original has the same optimum."""
    for seed in range(20):
        original = disguise(Random(seed), draft(), share_negated=0.5).original()
        assert abs((solve(original, 10).objective or 0) - 36) < 1e-6


def test_names_lead_back() -> None:
    hidden = disguise(Random(1), draft())
    assert [hidden.names[name] for name in hidden.root_cause] == ["c3"]


@pytest.mark.rule("no name, place or text tells the label")
def test_guesses_by_place_and_name_are_no_better_than_chance() -> None:
    """The first, the last and the middle row, each blamed in 30 instances.

    A guess is right once in fourteen; more than eight of 30 has a probability below 1 in 1,000.
    """
    instances = [
        make(9, CellPlan(kind, "easy"), number).instance
        for kind in ("A", "D")
        for number in range(15)
    ]
    for share in (0.0, 0.5, 1.0):
        hits = 0
        for one in instances:
            rows = [row.name for row in one.model.rows]
            hits += rows[round(share * (len(rows) - 1))] in one.root_cause
        assert hits <= 8
