"""The findings of comparing and repairing stages, as rows of the report."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from assay_shared.errors import DatasetError
from assay_trainer.comparison.report.words import p_text, row_change, sides
from assay_trainer.comparison.results import ComparedRow
from assay_trainer.pipelines.gating.numbers import numbers_of
from assay_trainer.pipelines.runner import PlannedStage
from assay_trainer.pipelines.stage_kinds import CompareStage, MeasuringStage

COMPARED = (
    *("stage", "arm", "set", "metric", "baseline", "measured", "difference (interval)"),
    *("corrected p", "verdict"),
)
COMPARED_NOTE = (
    "A difference is the arm minus the baseline, over tasks that both have. Of whole sets; the "
    "strata stand in the stage's comparison.md."
)
REPAIRED = (
    *("stage", "set", "accepted@multi", "recovery rate", "mean rounds", "tokens per solved"),
    *("money per solved", "best of n", "over best of n", "verdict", "tasks"),
)
REPAIRED_NOTE = (
    "Best of n has as many sampled tokens as repair. PASS: repair is above it, FAIL: below, else "
    "INCONCLUSIVE."
)
_MISSING = "-"


def compared_rows(one: PlannedStage) -> Iterator[tuple[str, ...]]:
    """Yield a row for each arm, set and metric that a finished stage compared.

    Raises:
        DatasetError: comparison_data.json is not as it was written.
    """
    file = one.folder.output / "comparison_data.json"
    if not isinstance(one.stage, CompareStage) or not file.is_file():
        return
    try:
        rows = [ComparedRow.model_validate(row) for row in json.loads(file.read_bytes())["rows"]]
    except (ValueError, LookupError, TypeError) as error:
        raise DatasetError(f"{file} cannot be read: {error!s:.200}") from None
    for row in rows:
        # What moves with the machine alone has no change to tell.
        if row.stratum is None and not row.of_machine:
            names = (one.name, row.arm, row.set, row.title)
            yield (*names, *sides(row), row_change(row), p_text(row.p_corrected), row.verdict)


def repaired_rows(one: PlannedStage) -> Iterator[tuple[str, ...]]:
    """Yield a row for each set whose programs a finished stage repaired.

    Raises:
        DatasetError: the stage has written no numbers.
    """
    if not isinstance(one.stage, MeasuringStage):
        return
    for name in one.stage.sets:
        overall = numbers_of(one.stage, one.folder, name)
        repair, costs = overall.get("repair"), overall.get("costs") or {}
        if repair is None:
            continue
        yield (
            one.name,
            name,
            _told(repair["accepted_at_multi"], _percent),
            _told(repair["recovery_rate"], _percent),
            f"{repair['mean_rounds']:.2f}",
            _told(costs.get("tokens_per_solved"), "{:.4g}".format),
            _told(costs.get("money_per_solved"), "{:.3g}".format),
            _told(repair["best_of_n"], _percent),
            _told(repair["over_best_of_n"], _points),
            repair["verdict"],
            str(overall["num_scored_tasks"]),
        )


def _told(number: dict[str, Any] | None, written: Callable[[float], str]) -> str:
    """Return an estimate with its interval."""
    if number is None:
        return _MISSING
    low = "-inf" if number["low"] is None else written(number["low"])
    high = "inf" if number["high"] is None else written(number["high"])
    return f"{written(number['value'])} ({low} to {high})"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f} pp"
