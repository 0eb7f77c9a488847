"""Models as MPS files, read and written by HiGHS; names are kept."""

import re
import tempfile
from pathlib import Path

import numpy as np
from highspy import Highs, HighsLp, HighsStatus, HighsVarType, MatrixFormat, ObjSense
from pydantic import ValidationError

from assay_reward.or_debug.models import mps_text
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_shared.errors import DatasetError, InvalidInput, SolverFault

#: Significant digits in the files of HiGHS.
DIGITS = 15
#: HiGHS's message for a column with its lower bound above its upper bound.
CROSSED = re.compile(r"Col\s+\d+ has inconsistent bounds")


def read(path: Path) -> OptimizationModel:
    """Return the model in an MPS file. Columns with contradictory bounds are accepted.

    Raises:
        DatasetError: the file is missing or not MPS; or HiGHS would misread it; or it has features
            unknown to `OptimizationModel`: a constant in the objective, semi-continuous columns,
            names other than words.
    """
    mps_text.check(path)
    highs, warnings = _silent(), list[str]()
    highs.setOptionValue("output_flag", True)
    highs.setOptionValue("log_to_console", False)
    highs.cbLogging.subscribe(lambda event: warnings.extend(_warnings(event.message)))
    status = highs.readModel(str(path))
    if warnings:
        raise DatasetError(f"not a readable MPS file: {warnings[0]}", field=str(path))
    if status == HighsStatus.kError:
        raise DatasetError("not a readable MPS file", field=str(path))
    lp = highs.getLp()
    if lp.offset_:
        raise DatasetError("the objective has a constant", field=str(path))
    kinds = list(lp.integrality_) or [HighsVarType.kContinuous] * lp.num_col_
    if not set(kinds) <= {HighsVarType.kContinuous, HighsVarType.kInteger}:
        raise DatasetError("only continuous and integer columns are supported", field=str(path))
    try:
        return _model(lp, kinds)
    except ValidationError as error:
        raise DatasetError(f"not a usable model: {_told(error)}", field=str(path)) from None


def _warnings(message: str) -> list[str]:
    """Return HiGHS's warnings about a file, except about contradictory bounds, a valid mistake."""
    is_told = message.lstrip().startswith(("WARNING:", "ERROR:"))
    return [" ".join(message.split())] if is_told and not CROSSED.search(message) else []


def _told(error: ValidationError) -> str:
    """Return the first error in a line."""
    first = error.errors()[0]
    if first["type"] == "string_pattern_mismatch":
        name = str(first["input"])[:64]
        return f"the name {name!r} is not a word of letters, digits and _, up to 64"
    return first["msg"]


def _model(lp: HighsLp, kinds: list[HighsVarType]) -> OptimizationModel:
    """Return the model. Raises: ValidationError for an invalid `OptimizationModel`."""
    columns = zip(lp.col_names_, lp.col_lower_, lp.col_upper_, lp.col_cost_, kinds, strict=True)
    return OptimizationModel(
        columns=tuple(
            Column(
                name=name,
                lower=low,
                upper=high,
                cost=cost,
                is_integer=kind == HighsVarType.kInteger,
            )
            for name, low, high, cost, kind in columns
        ),
        rows=_rows(lp),
        maximise=lp.sense_ == ObjSense.kMaximize,
    )


def _rows(lp: HighsLp) -> tuple[ModelRow, ...]:
    """Return the rows of a column-wise `lp`, the form in files read by HiGHS."""
    coefficients: list[dict[str, float]] = [{} for _ in range(lp.num_row_)]
    matrix = lp.a_matrix_
    starts, indices, values = list(matrix.start_), list(matrix.index_), list(matrix.value_)
    for at, column in enumerate(lp.col_names_):
        for entry in range(starts[at], starts[at + 1]):
            if values[entry]:
                coefficients[indices[entry]][column] = values[entry]
    return tuple(
        ModelRow(name=name, coefficients=terms, lower=low, upper=high)
        for name, terms, low, high in zip(
            lp.row_names_, coefficients, lp.row_lower_, lp.row_upper_, strict=True
        )
    )


def write(model: OptimizationModel, path: Path) -> None:
    """Write `model` as free-format MPS, with up to 15 significant digits.

    Raises: InvalidInput for a column without a row and a cost, because the file would lose it;
    SolverFault if HiGHS cannot write the file.
    """
    used = {name for row in model.rows for name in row.coefficients}
    if idle := [c.name for c in model.columns if not c.cost and c.name not in used]:
        raise InvalidInput(f"columns in no row and without a cost: {idle}", field="model")
    highs = _silent()
    if (
        highs.passModel(_lp(model)) == HighsStatus.kError
        or highs.writeModel(str(path)) == HighsStatus.kError
    ):
        raise SolverFault(f"HiGHS cannot write {path}")


def as_written(model: OptimizationModel) -> OptimizationModel:
    """Return `model` rounded to the digits of our files, because published files hold more."""

    def kept(value: float) -> float:
        return float(format(value, f".{DIGITS}g"))

    def sides(part: ModelRow | Column) -> dict[str, float]:
        return {"lower": kept(part.lower), "upper": kept(part.upper)}

    return model.replaced(
        columns=tuple(
            column.model_copy(update=sides(column) | {"cost": kept(column.cost)})
            for column in model.columns
        ),
        rows=tuple(
            row.model_copy(
                update=sides(row)
                | {"coefficients": {name: kept(one) for name, one in row.coefficients.items()}}
            )
            for row in model.rows
        ),
    )


def text(model: OptimizationModel) -> str:
    """Return `model` as the text of an MPS file. Raises as `write`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mps"
        write(model, path)
        return path.read_text()


def _lp(model: OptimizationModel) -> HighsLp:
    """Return `model` as a row-wise LP, with its names."""
    lp = HighsLp()
    columns = {column.name: at for at, column in enumerate(model.columns)}
    lp.num_col_, lp.num_row_ = len(model.columns), len(model.rows)
    lp.sense_ = ObjSense.kMaximize if model.maximise else ObjSense.kMinimize
    lp.col_cost_ = np.array([column.cost for column in model.columns], dtype=np.float64)
    lp.col_lower_ = np.array([column.lower for column in model.columns], dtype=np.float64)
    lp.col_upper_ = np.array([column.upper for column in model.columns], dtype=np.float64)
    lp.row_lower_ = np.array([row.lower for row in model.rows], dtype=np.float64)
    lp.row_upper_ = np.array([row.upper for row in model.rows], dtype=np.float64)
    lp.integrality_ = [
        HighsVarType.kInteger if column.is_integer else HighsVarType.kContinuous
        for column in model.columns
    ]
    lp.col_names_ = [column.name for column in model.columns]
    lp.row_names_ = [row.name for row in model.rows]
    matrix = lp.a_matrix_
    matrix.format_ = MatrixFormat.kRowwise
    matrix.num_col_, matrix.num_row_ = lp.num_col_, lp.num_row_
    matrix.start_ = np.cumsum([0, *(len(row.coefficients) for row in model.rows)], dtype=np.int32)
    indices = [columns[name] for row in model.rows for name in row.coefficients]
    values = [value for row in model.rows for value in row.coefficients.values()]
    matrix.index_ = np.array(indices, dtype=np.int32)
    matrix.value_ = np.array(values, dtype=np.float64)
    return lp


def _silent() -> Highs:
    highs = Highs()
    highs.setOptionValue("output_flag", False)
    return highs
