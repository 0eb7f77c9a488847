"""Names of an ablation file's fields in errors about the run files made of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from assay_shared.errors import CallerError
from assay_trainer.ablation.arms import CURVE, TIER, AblationPlan

_PREFIXES = (f"evaluation.tiers {CURVE}.", f"evaluation.tiers {TIER}.")


def field_in_file(plan: AblationPlan, field: str) -> str:
    """Return the field of an ablation file for one, or several with commas, of its run files."""
    return ", ".join(dict.fromkeys(_field(plan, one) for one in field.split(", ")))


@contextmanager
def named_as_in_file(plan: AblationPlan) -> Iterator[None]:
    """Name fields as the ablation file does.

    Raises:
        CallerError: that of the block, with its field renamed.
    """
    try:
        yield
    except CallerError as error:
        if error.field is None or (field := field_in_file(plan, error.field)) == error.field:
            raise
        raise type(error)(error.message, field=field, hint=error.hint) from error


def _field(plan: AblationPlan, field: str) -> str:
    for prefix in _PREFIXES:
        if field.startswith(prefix):
            own = field.removeprefix(prefix).replace("sets.curve_", "sets.")
            if own.startswith("sets.held_out") and not plan.config.evaluation.sets:
                return "data.held_out" + own.removeprefix("sets.held_out")
            return f"evaluation.{own}"
    return field
