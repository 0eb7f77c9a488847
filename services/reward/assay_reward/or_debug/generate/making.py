"""One instance from a seed, a cell and a number; nothing else has a say in what it is."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from assay_reward.or_debug.dataset.disguise import disguise
from assay_reward.or_debug.dataset.draft import Draft, Unsuitable
from assay_reward.or_debug.generate import coefficient, contradiction, direction, domain
from assay_reward.or_debug.generate.cells import CellPlan, ErrorType
from assay_reward.or_debug.generate.plant import Plant, build
from assay_reward.or_debug.generate.validation import confirmed, validated
from assay_reward.or_debug.models.instance import Instance
from assay_reward.or_debug.models.solver import Engine
from assay_shared.errors import DatasetError, SolverFault

SABOTAGE: dict[ErrorType, Callable[[Random, CellPlan, Plant], Draft]] = {
    "A": direction.sabotage,
    "B": domain.sabotage,
    "C": coefficient.sabotage,
    "D": contradiction.sabotage,
}
MAX_ATTEMPTS = 200
#: Of ten instances, the last three have integers.
PERIOD, NUM_LP = 10, 7
#: So that neither sense says what kind of row it is.
SHARE_NEGATED = 0.3


@dataclass(frozen=True)
class MadeInstance:
    """An instance, and why what was drawn before it was not one."""

    instance: Instance
    rejected: Counter[str]


def make(
    seed: int,
    cell: CellPlan,
    number: int,
    confirm: Engine | None = None,
    max_attempts: int = MAX_ATTEMPTS,
) -> MadeInstance:
    """The instance `number` of `cell`, checked with `confirm` too where it is given.

    Raises: DatasetError where nothing suitable is found in `max_attempts`; it names the cell and
    counts the reasons.
    """
    rejected: Counter[str] = Counter()
    for attempt in range(max_attempts):
        draw = Random(f"{seed}/{cell.name}/{number}/{attempt}")
        try:
            return MadeInstance(_draw(draw, cell, number, confirm), rejected)
        except (Unsuitable, SolverFault) as reason:
            # A model that trips a solver is no good instance either; it is counted with the others.
            rejected[str(reason)] += 1
    counts = ", ".join(f"{count} times: {reason}" for reason, count in rejected.most_common())
    raise DatasetError(
        f"no instance {number} of {cell.name} in {max_attempts} attempts; {counts}", field=cell.name
    )


def _draw(draw: Random, cell: CellPlan, number: int, confirm: Engine | None) -> Instance:
    """Raises: Unsuitable."""
    is_mip = number % PERIOD >= NUM_LP
    plant = build(draw, cell.shape, is_mip)
    disguised = disguise(draw, SABOTAGE[cell.error_type](draw, cell, plant), SHARE_NEGATED)
    findings = validated(cell, disguised)
    if confirm:
        confirmed(disguised.original(), disguised.broken, findings.original_objective, confirm)
    return Instance(
        id=f"{cell.error_type}-{cell.difficulty}-{number:04d}",
        error_type=cell.error_type,
        difficulty=cell.difficulty,
        model=disguised.broken,
        original_objective=findings.original_objective,
        root_cause=disguised.root_cause,
        fix=disguised.fix,
        iis=findings.iis,
        num_single_repairs=findings.num_single_repairs,
        names=disguised.names,
        tags={
            "kind": "mip" if is_mip else "lp",
            "is_identifiable": "no" if findings.num_rivals else "yes",
        },
    )
