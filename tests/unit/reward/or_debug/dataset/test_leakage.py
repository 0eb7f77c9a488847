import pytest

from assay_reward.or_debug.dataset.leakage import leaks
from assay_reward.or_debug.episode.actions import instructions
from assay_reward.or_debug.generate.cells import CellPlan
from assay_reward.or_debug.models.instance import Instance
from tests.support.or_debug.made import GRID, made


def instance() -> Instance:
    return made(CellPlan("D", "easy"), 0)


@pytest.mark.rule("no name, place or text tells the label")
@pytest.mark.parametrize(
    "planted",
    [
        "_saboteur_conflict_c5: x1 <= 3",
        "_chain_cycle: x1 - x2 >= 1",
        "_chain_constr_4: x1 - x2 >= 1",
        "_multi_constr_upper_x2_x3: x2 + x3 <= 1",
        "_hidden_root_x0: x3 >= 250",
        "_force_x0: x0 >= 2",
        "c_key_lower: x0 >= 2",
        "a problem with a Constraint Direction Error",
        "Contains a Multi-Constraint Conflict",
        "error_type: D",
        "this is type D",
        "ground truth: c3",
        "the injected row",
        "limit_3: x1 >= 7",
        "D-easy-0000",
    ],
)
def test_what_tells_the_answer_is_found(planted: str) -> None:
    """Positive controls: names and words of published data, and an instance's own."""
    text = f"{instance().model.text()}\n{planted}"
    assert leaks(text, instance())


@pytest.mark.parametrize("cell", GRID, ids=lambda cell: cell.name)
def test_rules_and_models_tell_nothing(cell: CellPlan) -> None:
    one = made(cell, 0)
    assert leaks(f"{instructions(8)}\n\n{one.model.text()}", one) == []
    renamed = one.model.with_row(one.model.rows[0].model_copy(update={"name": "budget"}))
    broken = one.model_copy(update={"model": renamed})
    assert leaks(renamed.text(), broken) == ["budget"]
