from pathlib import Path

import pytest

from assay_reward.or_debug.models.iis import irreducible
from assay_reward.or_debug.models.instance import (
    DropRow,
    Instance,
    SetColumn,
    SetRow,
    apply,
    load,
    save,
)
from assay_reward.or_debug.models.model import Column, ModelRow
from assay_shared.errors import DatasetError, InvalidInput
from tests.support.or_debug.models import infeasible


def instance() -> Instance:
    model = infeasible()
    return Instance(
        id="a-1",
        error_type="A",
        difficulty="easy",
        model=model,
        original_objective=40.0,
        root_cause=("c1",),
        fix=(SetRow(row=ModelRow(name="c1", coefficients={"x": 1, "y": -1}, upper=2)),),
        iis=irreducible(model, 10),
    )


def test_the_fix_gives_the_original_back() -> None:
    assert instance().original().row("c1").upper == 2
    assert instance().original().rows[1].name == "c1"


def test_edits_apply_in_order_and_only_to_what_is_there() -> None:
    model = infeasible()
    edits = (SetColumn(column=Column(name="x", upper=7)), DropRow(name="c2"))
    edited = apply(edits, model)
    assert edited.column("x").upper == 7
    assert "c2" not in edited.rows_by_name
    with pytest.raises(InvalidInput, match="no row c2"):
        apply((DropRow(name="c2"), DropRow(name="c2")), model)
    with pytest.raises(InvalidInput, match="no column z"):
        apply((SetColumn(column=Column(name="z")),), model)


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    both = (instance(), instance().model_copy(update={"id": "a-2", "tags": {"kind": "lp"}}))
    save(both, tmp_path / "dataset.json")
    assert load(tmp_path / "dataset.json") == both


def test_a_file_that_cannot_be_used_is_refused_with_its_field(tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"
    with pytest.raises(DatasetError, match="no such file"):
        load(path)
    save((instance(),), path)
    path.write_text(path.read_text().replace('"error_type":"A"', '"error_type":"flip"'))
    with pytest.raises(DatasetError, match=r"dataset.json: instances.0.error_type"):
        load(path)
