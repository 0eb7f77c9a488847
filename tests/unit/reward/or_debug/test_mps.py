from pathlib import Path

import pytest

from assay_reward.or_debug import mps
from assay_reward.or_debug.model import Column, Model, Row
from assay_shared.errors import DatasetError, InvalidInput
from tests.unit.reward.or_debug.models import at_random, feasible, infeasible, only_integers_fail

MODELS = [feasible(), infeasible(), only_integers_fail(), *(at_random(s, True) for s in range(20))]


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_a_file_gives_back_the_model_that_was_written(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    mps.write(model, path)
    assert mps.read(path) == model
    assert mps.read(path).text() == model.text()
    assert mps.text(model) == path.read_text()


def test_bounds_of_every_kind_survive(tmp_path: Path) -> None:
    inf = float("inf")
    sides = [(0, inf), (-inf, inf), (-inf, 5), (-3, 5), (2, 2), (-4, inf), (0, 1)]
    model = Model(
        columns=tuple(
            Column(
                name=f"{'i' if is_integer else 'r'}{at}",
                lower=low,
                upper=high,
                cost=at + 1,
                is_integer=is_integer,
            )
            for is_integer in (False, True)
            for at, (low, high) in enumerate(sides)
        ),
        rows=(Row(name="c", coefficients={"r0": 1, "i6": 1}, lower=-7, upper=inf),),
        maximise=False,
    )
    mps.write(model, tmp_path / "m.mps")
    assert mps.read(tmp_path / "m.mps") == model


@pytest.mark.parametrize("text", ["", "not a model", "NAME x\nROWS\n N OBJ\n L c\nCOLUMNS\n"])
def test_what_is_no_mps_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.mps"
    path.write_text(text)
    with pytest.raises(DatasetError, match="broken.mps"):
        mps.read(path)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nothing.mps"):
        mps.read(tmp_path / "nothing.mps")


def test_a_column_that_a_file_would_lose_is_refused(tmp_path: Path) -> None:
    model = Model(columns=(Column(name="x", cost=1), Column(name="idle", upper=3)))
    with pytest.raises(InvalidInput, match="idle"):
        mps.write(model, tmp_path / "m.mps")
