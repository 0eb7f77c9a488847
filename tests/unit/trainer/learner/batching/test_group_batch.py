"""Sums over the groups of a step."""

from assay_shared.types import ComponentReport, Cost
from assay_trainer.learner.batching.group_batch import DropReason, GroupBatch
from tests.support.fakes import make_scored_group


def test_costs_of_judges_are_summed_over_all_played_groups() -> None:
    costs = tuple(
        ComponentReport(name=name, time_s=1.0, cost=Cost(judge_tokens=100, money=0.25))
        for name in ("style", "safety")
    )
    batch = GroupBatch(version=3)
    batch.count(make_scored_group("g0", 1.0, 0.0).model_copy(update={"costs": costs}), None)
    dropped = make_scored_group("g1", 1.0).model_copy(update={"costs": costs[:1]})
    batch.count(dropped, DropReason.UNKNOWN_VERSION)
    batch.count(make_scored_group("g2", 1.0), None)
    facts = batch.facts(groups_per_step=4)
    assert (facts["judge_tokens"], facts["judge_money"]) == (300, 0.75)
