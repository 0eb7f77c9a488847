"""Every field of the objective changes some gradients, and leaves those that it must leave."""

import re
from pathlib import Path

import pytest

from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.objective.averages import AVERAGES
from assay_trainer.objective.corrections.table import CORRECTIONS
from assay_trainer.objective.kl import ESTIMATORS
from assay_trainer.objective.losses.table import LOSSES
from tests.support.objective_witnesses import (
    BASE,
    OBJECTIVE_WITNESSES,
    ObjectiveWitness,
    relative_change,
    step_gradient,
)
from tests.support.order_witnesses import ORDER_WITNESSES, OrderWitness, sampled
from tests.support.sampler_witnesses import SAMPLER_WITNESSES
from tests.support.witnesses import EVERY, OTHER_FIELDS, markdown, measured, table, written

PAGE = Path(__file__).parents[4] / "docs" / "algorithms.md"


@pytest.mark.parametrize(
    "row", OBJECTIVE_WITNESSES, ids=lambda row: f"{row.name}={written(row.value)}"
)
@pytest.mark.rule("a switch of the loss changes the loss, and one without effect is seen")
def test_a_field_of_the_objective_acts_on_its_batch_and_leaves_the_other(
    row: ObjectiveWitness,
) -> None:
    acts, idle = row.changes()
    assert acts > 1e-3
    assert idle < 1e-6


@pytest.mark.parametrize("row", ORDER_WITNESSES, ids=lambda row: row.name)
def test_a_field_of_the_order_changes_the_tasks_among_which_it_acts(row: OrderWitness) -> None:
    assert sampled(row.acts, row.name, row.before) != sampled(row.acts, row.name, row.value)
    assert sampled(row.idle, row.name, row.before) == sampled(row.idle, row.name, row.value)


def test_every_field_has_a_row_or_a_reason_to_have_none() -> None:
    fields = {one.name for one in OBJECTIVE_WITNESSES} | {one.name for one in SAMPLER_WITNESSES}
    assert not fields & OTHER_FIELDS.keys()
    assert fields | OTHER_FIELDS.keys() == set(GRPOConfig.model_fields)


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("loss", LOSSES.keys() - {"dapo"}),
        ("average", AVERAGES.keys()),
        ("correction", CORRECTIONS.keys()),
        ("kl_estimator", ESTIMATORS.keys() - {"k3", "k2"}),
    ],
)
def test_every_row_of_the_menu_has_a_witness(field: str, names: set[str]) -> None:
    """But for k2, whose gradient is that of k3 on every batch: see the next test."""
    rows = [one for one in OBJECTIVE_WITNESSES if one.name == field]
    assert {one.value for one in rows if isinstance(one.value, str)} >= names


def test_k2_and_k3_differ_in_their_figure_alone() -> None:
    found = [
        step_gradient(
            GRPOConfig.model_validate({**BASE, "kl_weight": 0.5, "kl_estimator": estimator})
        )
        for estimator in ("k2", "k3")
    ]
    assert relative_change(*found) < 1e-5


@pytest.mark.parametrize(
    ("field", "acts", "idle"),
    [
        ("loss", r"gradient [1-9]\.\de-0[123]", r"gradient 0.0e\+00"),
        ("temperature", "samples [1-9]", "samples 0"),
        ("seed", "tasks differ", "tasks are the same"),
    ],
)
def test_the_printed_table_tells_what_was_measured(field: str, acts: str, idle: str) -> None:
    row = next(one for one in EVERY if one.name == field)
    changes, leaves = measured(row)
    assert re.match(acts, changes)
    assert re.fullmatch(idle, leaves)


def test_the_page_of_the_algorithms_has_the_table() -> None:
    """`make witnesses` prints it with what was measured."""
    assert "\n".join(markdown(table())) in PAGE.read_text()


def named(settings: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(settings))


def test_the_page_has_every_row_of_the_menu() -> None:
    losses = [
        (
            one.name,
            one.paper,
            one.equation,
            one.average,
            ", ".join(f"`{n}`" for n in sorted(one.reads)),
        )
        for one in LOSSES.values()
    ]
    averages = [(one.name, one.paper, one.equation) for one in AVERAGES.values()]
    estimates = [(one.name, one.paper, one.equation) for one in ESTIMATORS.values()]
    corrections = [
        (
            one.name,
            one.paper,
            one.equation,
            ", ".join(
                f"{name} {bound:g}"
                for name, bound in (("low", one.low), ("high", one.high))
                if bound is not None
            ),
        )
        for one in CORRECTIONS.values()
    ]
    text = PAGE.read_text()
    for name, *others in (*losses, *averages, *estimates, *corrections):
        line = " ".join(f"| `{name}` | {' | '.join(others)} |".split())
        assert line in text, line
