"""Harms and totals of compared answers."""

import json

import pytest

from assay_shared.verdicts.compared import (
    ComparedAnswer,
    ComparedGroup,
    GivenReward,
    Harm,
    Nature,
    totals_of,
)
from assay_shared.verdicts.json_text import verdict_json
from assay_shared.verdicts.summary import findings
from assay_shared.verdicts.terminal import summary_lines

FAILED = GivenReward(None, "failed (network)")


def answer(
    nature: Nature, assay: float | None, usual: float, *earlier: GivenReward
) -> ComparedAnswer:
    return ComparedAnswer(
        f"{nature}", GivenReward(assay, "v"), GivenReward(usual, "u"), nature, "", earlier
    )


@pytest.mark.parametrize(
    ("given", "harm", "own"),
    [
        (answer(Nature.RIGHT, 1, 1), Harm.NONE, Harm.NONE),
        (answer(Nature.RIGHT, 1, 0), Harm.RIGHT_REFUSED, Harm.NONE),
        (answer(Nature.RIGHT, 0, 1), Harm.NONE, Harm.RIGHT_REFUSED),
        (answer(Nature.WRONG, 0, 0.5), Harm.WRONG_PAID, Harm.NONE),
        (answer(Nature.CHEAT, 0, 1), Harm.CHEAT_PAID, Harm.NONE),
        (answer(Nature.CHEAT, 1, 0), Harm.NONE, Harm.CHEAT_PAID),
        (answer(Nature.RIGHT, None, 0), Harm.FAILURE_AS_ZERO, Harm.NONE),
        (answer(Nature.WRONG, None, 0), Harm.FAILURE_AS_ZERO, Harm.NONE),
        (answer(Nature.RIGHT, 1, 0, FAILED), Harm.FAILURE_AS_ZERO, Harm.NONE),
        (answer(Nature.WRONG, 0, 0, FAILED), Harm.FAILURE_AS_ZERO, Harm.NONE),
        (answer(Nature.UNKNOWN, 1, 1), Harm.NONE, Harm.NONE),
    ],
)
def test_harm(given: ComparedAnswer, harm: Harm, own: Harm) -> None:
    assert (given.harm, given.own_harm) == (harm, own)


def test_totals_count_what_each_side_trains_on() -> None:
    rights = tuple(answer(Nature.RIGHT, 1, 1) for _ in range(7))
    groups = [
        ComparedGroup("a", "", (*rights, answer(Nature.RIGHT, 1, 0, FAILED))),
        ComparedGroup("b", "", (*rights[:4], *[answer(Nature.CHEAT, 0, 1)] * 4)),
        ComparedGroup("c", "", (*rights[:4], *[answer(Nature.RIGHT, None, 0)] * 4)),
    ]
    totals = totals_of(groups)
    assert (totals.num_groups, totals.num_answers) == (3, 24)
    assert totals.usual[Harm.CHEAT_PAID] == 4
    assert totals.usual[Harm.FAILURE_AS_ZERO] == 5
    assert (totals.num_failed, totals.num_recovered) == (4, 1)
    assert totals.usual_misled == 5  # the cheats of b have an advantage of 0: all were paid
    assert totals.assay_misled == 0
    assert totals.worst == pytest.approx(-2.474, abs=1e-3)
    assert groups[1].advantages[7] == pytest.approx(-0.935, abs=1e-3)
    assert groups[2].advantages[4:] == [None] * 4
    assert len(findings(totals)) == len(summary_lines(totals)) == 5
    assert "−2.47" in summary_lines(totals)[4]


def test_json_has_rewards_advantages_and_harms() -> None:
    group = ComparedGroup("a", "p", (answer(Nature.RIGHT, None, 0), answer(Nature.RIGHT, 1, 1)))
    found = json.loads(verdict_json([group]))
    first = found["groups"][0]["answers"][0]
    assert first["assay"]["value"] is None
    assert first["advantage"] is None
    assert first["usual_advantage"] < 0
    assert first["harm"] == "a failure was read as 0"
    assert len(found["findings"]) == 5
