from pathlib import Path
from random import Random

import pytest

from assay_reward.or_debug.models import mps
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_reward.or_debug.models.mps_text import MAX_BYTES
from assay_reward.or_debug.models.solver import solve
from assay_shared.errors import DatasetError, InvalidInput
from tests.support.or_debug.models import at_random, feasible, infeasible, only_integers_fail

PLAIN = """NAME t
ROWS
 N OBJ
 L c1
 G c2
COLUMNS
    x OBJ 1 c1 1
    x c2 1
    y OBJ 1 c1 1
RHS
    RHS c1 4 c2 10
BOUNDS
 UP BND x 5
ENDATA
"""
MODELS = [feasible(), infeasible(), only_integers_fail(), *(at_random(s, True) for s in range(20))]


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_a_file_gives_back_the_model_that_was_written(
    model: OptimizationModel, tmp_path: Path
) -> None:
    path = tmp_path / "model.mps"
    mps.write(model, path)
    assert mps.read(path) == model
    assert mps.read(path).text() == model.text()
    assert mps.text(model) == path.read_text()


def test_bounds_of_every_kind_survive(tmp_path: Path) -> None:
    inf = float("inf")
    sides = [(0, inf), (-inf, inf), (-inf, 5), (-3, 5), (2, 2), (-4, inf), (0, 1)]
    model = OptimizationModel(
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
        rows=(ModelRow(name="c", coefficients={"r0": 1, "i6": 1}, lower=-7, upper=inf),),
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
    model = OptimizationModel(columns=(Column(name="x", cost=1), Column(name="idle", upper=3)))
    with pytest.raises(InvalidInput, match="idle"):
        mps.write(model, tmp_path / "m.mps")


def test_bounds_that_exclude_each_other_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "m.mps"
    path.write_text(PLAIN.replace(" UP BND x 5", " LO BND x 50\n UP BND x 15"))
    model = mps.read(path)
    assert (model.column("x").lower, model.column("x").upper) == (50, 15)
    assert solve(model, 5).status == "infeasible"
    mps.write(model, tmp_path / "again.mps")
    assert mps.read(tmp_path / "again.mps") == model


def test_a_file_may_be_fixed_or_free_have_ranges_and_end_lines_in_any_way(tmp_path: Path) -> None:
    path = tmp_path / "m.mps"
    texts = (
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("RHS c1 4 c2 10", "c1 4 c2 10"),
        PLAIN.replace("    RHS c1 4 c2 10", "    RHS       c1        4.0   c2        1.0E+1"),
        f"* a remark\n\n{PLAIN}",
    )
    read = []
    for text in texts:
        path.write_text(text, newline="")
        read.append(mps.read(path))
    assert read == [read[0]] * len(texts)
    path.write_text(PLAIN.replace("BOUNDS", "RANGES\n    RNG c1 3\nBOUNDS"))
    assert (mps.read(path).row("c1").lower, mps.read(path).row("c1").upper) == (1, 4)


def changed(old: str, new: str) -> bytes:
    assert old in PLAIN
    return PLAIN.replace(old, new).encode()


#: What a solver would read as another model, or not at all, and what is told of it.
HOSTILE = {
    "a bound of nan": (changed("x 5", "x nan"), "m.mps:13: 'nan' is not a number"),
    "a coefficient of nan": (changed("x c2 1", "x c2 nan"), "'nan' is not a number"),
    "a side of nan": (changed("c2 10", "c2 nan"), "'nan' is not a number"),
    "an infinite coefficient": (changed("x c2 1", "x c2 1e400"), "greater than 1e"),
    "a number with a tail": (changed("x 5", "x 5abc"), "'5abc' is not a number"),
    "a decimal comma": (changed("x 5", "x 5,5"), "'5,5' is not a number"),
    "a row twice": (changed(" G c2", " G c2\n G c2"), 'same name "c2"'),
    "a column in two places": (changed("RHS\n", "    x c1 3\nRHS\n"), 'same name "x"|duplicate'),
    "a coefficient twice": (changed("x c2 1", "x c2 1 c2 3"), "duplicate nonzero"),
    "a bound twice": (changed(" UP BND x 5", " UP BND x 5\n UP BND x 6"), "duplicate upper"),
    "a side of no row": (changed("c2 10", "c9 10"), 'Row name "c9"'),
    "a bound of no column": (changed("x 5", "z 5"), "no column is called z"),
    "a lone negative upper bound": (changed("x 5", "x -5"), "negative upper bound"),
    "two objectives": (changed(" N OBJ", " N OBJ\n N OTHER"), "a second objective"),
    "a quadratic part": (changed("ENDATA", "QUADOBJ\n    x x 1\nENDATA"), "no QUADOBJ"),
    "sets of columns": (changed("ENDATA", "SOS\n S1 s s1\n    s x 1\nENDATA"), "no SOS"),
    "a constant": (changed("RHS c1 4", "RHS OBJ 4 c1 4"), "has a constant"),
    "half of it": (PLAIN[:60].encode(), "no ENDATA"),
    "zero bytes": (changed("x 5", "x\0 5"), "zero bytes"),
    "a name that is not a word": (changed("x", "x[1]"), "the name 'x\\[1\\]' is not a word"),
    "a very long name": (changed("c1", "c" * 5000), "is not a word"),
    "a binary": (bytes(range(256)) * 400, "ASCII text"),
    "gzip": (b"\x1f\x8b\x08" + bytes(50), "gunzip it"),
    "a web page": (b"<html><body>404</body></html>", "not MPS"),
    "a pointer to large data": (b"version https://git-lfs\noid sha256:0\n", "not MPS"),
    "too much": (b"*" * (MAX_BYTES + 1), f"more than {MAX_BYTES} bytes"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_solver_would_misread_is_refused_with_the_reason(what: str, tmp_path: Path) -> None:
    content, told = HOSTILE[what]
    path = tmp_path / "m.mps"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=told):
        mps.read(path)


def test_noise_in_a_file_is_an_error_or_a_model_and_never_a_crash(tmp_path: Path) -> None:
    path, draw = tmp_path / "m.mps", Random(0)
    num_refused = 0
    for _ in range(300):
        text = list(PLAIN)
        for _ in range(draw.randint(1, 4)):
            text[draw.randrange(len(text))] = draw.choice("xc19 \n-.eENUP*'")
        path.write_text("".join(text))
        try:
            model = mps.read(path)
        except DatasetError:
            num_refused += 1
        else:
            assert model == mps.read(path)
    assert 100 < num_refused < 300
