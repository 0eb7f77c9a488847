"""Generation of an instance, determined by a seed, a cell and a number alone."""

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
from assay_shared.errors import DatasetError, SolverFault, TimedOut

SABOTAGE: dict[ErrorType, Callable[[Random, CellPlan, Plant], Draft]] = {
    "A": direction.sabotage,
    "B": domain.sabotage,
    "C": coefficient.sabotage,
    "D": contradiction.sabotage,
}
MAX_ATTEMPTS = 200
#: Of ten instances, the last three have integers.
PERIOD, NUM_LP = 10, 7
#: Share of rows with a reversed sign; otherwise the sense of a row would reveal its kind.
SHARE_NEGATED = 0.3


@dataclass(frozen=True)
class MadeInstance:
    """An instance, and the reasons for rejecting earlier samples."""

    instance: Instance
    rejected: Counter[str]


def make(
    seed: int,
    cell: CellPlan,
    number: int,
    confirm: Engine | None = None,
    max_attempts: int = MAX_ATTEMPTS,
) -> MadeInstance:
    """Return the instance `number` of `cell`, checked with the engine `confirm` too if given.

    Raises: DatasetError if there is no suitable sample in `max_attempts`; it names the cell and
    counts the reasons.
    """
    rejected: Counter[str] = Counter()
    for attempt in range(max_attempts):
        draw = Random(f"{seed}/{cell.name}/{number}/{attempt}")
        try:
            return MadeInstance(_draw(draw, cell, number, confirm), rejected)
        except (Unsuitable, SolverFault) as reason:
            # A model that makes a solver fail is not a good instance either: count it as well.
            rejected[str(reason)] += 1
        except TimedOut:
            rejected["a solver took too long"] += 1  # the message differs each time
    counts = ", ".join(f"{count} times: {reason}" for reason, count in rejected.most_common())
    raise DatasetError(
        f"no instance {number} of {cell.name} in {max_attempts} attempts; {counts}", field=cell.name
    )


def _draw(draw: Random, cell: CellPlan, number: int, confirm: Engine | None) -> Instance:
    """Sample an instance. Raises: Unsuitable."""
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
