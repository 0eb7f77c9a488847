import math

import pytest
from pydantic import ValidationError

from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_shared.errors import InvalidInput
from tests.support.or_debug.models import feasible


def test_the_text_says_all_of_a_model() -> None:
    model = OptimizationModel(
        columns=(
            Column(name="x1", upper=10, cost=3, is_integer=True),
            Column(name="x2", lower=None, upper=4, cost=-1),
            Column(name="x3", lower=-math.inf),
            Column(name="x4", lower=2.5, upper=2.5, cost=0.125),
        ),
        rows=(
            ModelRow(name="c1", coefficients={"x1": 2, "x2": -1}, upper=10),
            ModelRow(name="c2", coefficients={"x2": -1.5}, lower=-0.0),
            ModelRow(name="c3", coefficients={"x3": 1}, lower=1, upper=1),
            ModelRow(name="c4", coefficients={"x1": 1, "x4": 1 / 3}, lower=-2, upper=7),
            ModelRow(name="c5", coefficients={}),
        ),
    )
    assert model.text() == (
        "maximize: 3 x1 - x2 + 0.125 x4\n"
        "subject to:\n"
        "  c1: 2 x1 - x2 <= 10\n"
        "  c2: -1.5 x2 >= 0\n"
        "  c3: x3 = 1\n"
        "  c4: -2 <= x1 + 0.3333333333 x4 <= 7\n"
        "  c5: 0 is free\n"
        "bounds:\n"
        "  0 <= x1 <= 10\n"
        "  x2 <= 4\n"
        "  x3 is free\n"
        "  x4 = 2.5\n"
        "integer: x1"
    )


def test_json_has_null_where_there_is_no_side_and_gives_the_model_back() -> None:
    model = feasible()
    text = model.model_dump_json()
    assert "Infinity" not in text
    assert '"lower":null' in text
    again = OptimizationModel.model_validate_json(text)
    assert again == model
    assert again.digest == model.digest
    assert (
        model.with_row(ModelRow(name="c1", coefficients={"x": 1}, upper=3)).digest != model.digest
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "c", "coefficients": {"x": 0.0}}, "coefficient of 0"),
        ({"name": "c", "coefficients": {"x": math.nan}}, "finite"),
        ({"name": "c", "coefficients": {"x": math.inf}}, "finite"),
        ({"name": "c", "coefficients": {"x": 1}, "lower": math.nan}, "not a lower side"),
        ({"name": "c", "coefficients": {"x": 1}, "lower": math.inf}, "not a lower side"),
        ({"name": "c", "coefficients": {"x": 1}, "upper": -math.inf}, "not an upper side"),
        ({"name": "c", "coefficients": {"x": 1}, "lower": 2, "upper": 1}, "is above upper"),
        ({"name": "c 1", "coefficients": {"x": 1}}, "match pattern"),
        ({"name": "c", "coefficients": {"x": 1}, "sense": "<="}, "Extra inputs"),
    ],
)
def test_a_row_that_says_nothing_definite_is_refused(row: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelRow.model_validate(row)


def test_names_have_one_meaning() -> None:
    x = Column(name="x", upper=1)
    with pytest.raises(ValidationError, match="more than one row or column: \\['x'\\]"):
        OptimizationModel(columns=(x,), rows=(ModelRow(name="x", coefficients={"x": 1}),))
    with pytest.raises(ValidationError, match="columns that are not there: \\['y'\\]"):
        OptimizationModel(columns=(x,), rows=(ModelRow(name="c", coefficients={"y": 1}),))


def test_edits_leave_the_old_model_and_the_order() -> None:
    model = feasible()
    before = model.model_dump_json()
    row = ModelRow(name="c1", coefficients={"y": 2}, upper=1)
    edited = model.with_row(row).with_column(Column(name="y", upper=2)).without_row("c2")
    assert model.model_dump_json() == before
    assert [r.name for r in edited.rows] == ["c1", "c3"]
    assert edited.row("c1") == row
    assert edited.column("y").upper == 2
    assert [c.name for c in edited.columns] == ["x", "y"]
    added = model.with_row(ModelRow(name="c9", coefficients={"x": 1})).with_column(Column(name="z"))
    assert (added.rows[-1].name, added.columns[-1].name) == ("c9", "z")
    assert OptimizationModel.model_validate(added.model_dump()) == added


def test_edits_of_what_is_not_there_are_refused() -> None:
    model = feasible()
    with pytest.raises(InvalidInput, match="no row c7"):
        model.without_row("c7")
    with pytest.raises(InvalidInput, match="no column c1"):
        model.column("c1")
    with pytest.raises(InvalidInput, match="not there: \\['q'\\]"):
        model.with_row(ModelRow(name="c1", coefficients={"q": 1}))
    with pytest.raises(InvalidInput, match="x is a column"):
        model.with_row(ModelRow(name="x", coefficients={"y": 1}))
    with pytest.raises(InvalidInput, match="c1 is a row"):
        model.with_column(Column(name="c1"))


@pytest.mark.parametrize(
    ("lower", "upper", "sense"),
    [
        (-math.inf, 3, "<="),
        (3, math.inf, ">="),
        (3, 3, "="),
        (2, 3, "range"),
        (-math.inf, math.inf, "free"),
    ],
)
def test_a_row_has_one_sense(lower: float, upper: float, sense: str) -> None:
    assert ModelRow(name="c", coefficients={"x": 1}, lower=lower, upper=upper).sense == sense
