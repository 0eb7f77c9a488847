"""The models to break: plants with several stages of processing.

Each stage has parallel units; a column is the output of a unit. Supply limits the first stage, the
output of each stage limits the next stage, and the last stage has to meet demand. Each of these
limits exists twice, in two currencies (say material and energy) of about equal tightness. So no
single row is necessary for a conclusion through the stages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from assay_reward.or_debug.dataset.draft import Unsuitable
from assay_reward.or_debug.generate.cells import ModelShape, SizeRange
from assay_reward.or_debug.generate.extremes import Direction, Extremes
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_reward.or_debug.models.solver import relaxed, solve

CURRENCIES = ("material", "energy")
DEMAND_SHARE = 0.75
SHARE_OF_INTEGERS = 0.3
LIMIT_S = 30.0


@dataclass(frozen=True)
class Plant:
    """A feasible model, and its stages: `stages[k]` names the units of stage k+1."""

    model: OptimizationModel
    stages: tuple[tuple[str, ...], ...]
    #: A feasible point, by column.
    reference: dict[str, float]
    extremes: Extremes

    def best_point(self) -> dict[str, float]:
        """Return a best point of the relaxation. Raises: Unsuitable if there is no optimum."""
        best = solve(relaxed(self.model), LIMIT_S)
        if not best.is_optimal:
            raise Unsuitable("the plant has no optimum")
        return best.values


def limit(kind: str) -> tuple[str, ...]:
    """Return the names of a limit's rows, in each currency."""
    return tuple(f"{kind}_{currency}" for currency in CURRENCIES)


def link(stage: int) -> tuple[str, ...]:
    """Return the names of the rows between `stage` and the next stage."""
    return limit(f"link_{stage}")


def draw_from(draw: Random, span: SizeRange) -> int:
    return draw.randint(span.low, span.high)


def build(draw: Random, shape: ModelShape, is_mip: bool) -> Plant:
    """Return a random plant. The same state of `draw` gives the same plant."""
    stages = _stages(draw, shape)
    reference = _reference(draw, stages)
    switches = [f"switch_{at}" for at in range(1, shape.num_switches + 1)]
    columns = _units(draw, stages, reference, is_mip)
    columns += [
        Column(name=name, upper=1, is_integer=is_mip, cost=-_round(draw.uniform(2, 6)))
        for name in switches
    ]
    reference |= dict.fromkeys(switches, 0.0)
    rows = [
        *_supply(draw, stages, reference),
        *_links(draw, stages, reference),
        *_demand(draw, stages, reference),
        *_capacities(draw, shape, stages, reference, switches),
        *_floors(draw, shape, stages, reference),
        *_contracts(draw, shape, stages, reference),
    ]
    bare = OptimizationModel(columns=tuple(columns), rows=tuple(rows))
    limits = _limits(draw, shape, stages, Extremes(bare))
    model = OptimizationModel(columns=tuple(columns), rows=(*rows, *limits))
    return Plant(model, stages, reference, Extremes(model))


def value(direction: Direction, point: dict[str, float]) -> float:
    return sum(weight * point[name] for name, weight in direction.items())


def weights(draw: Random, names: Sequence[str], low: float, high: float) -> Direction:
    return {name: _round(draw.uniform(low, high)) for name in names}


def _round(amount: float) -> float:
    return round(amount, 2)


def _stages(draw: Random, shape: ModelShape) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(
            f"unit_{stage}_{unit}" for unit in range(1, draw_from(draw, shape.units_per_stage) + 1)
        )
        for stage in range(1, draw_from(draw, shape.num_stages) + 1)
    )


def _reference(draw: Random, stages: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return each unit's output at a typical point; output falls a little from stage to stage."""
    flow, point = draw.uniform(60, 100), {}
    for units in stages:
        parts = [draw.uniform(0.4, 1.8) for _ in units]
        for name, share in zip(units, parts, strict=True):
            point[name] = flow * share / sum(parts)
        flow *= draw.uniform(0.93, 1.0)
    return point


def _units(
    draw: Random, stages: Sequence[Sequence[str]], reference: dict[str, float], is_mip: bool
) -> list[Column]:
    """Return the columns of all units: the last stage earns, the others cost."""
    columns = []
    for stage, units in enumerate(stages, start=1):
        for name in units:
            earns = stage == len(stages)
            cost = draw.uniform(8, 14) if earns else -draw.uniform(0.8, 3) / len(stages)
            columns.append(
                Column(
                    name=name,
                    upper=float(round(reference[name] * draw.uniform(2.5, 3.8))),
                    is_integer=is_mip and draw.random() < SHARE_OF_INTEGERS,
                    cost=_round(cost),
                )
            )
    return columns


def _supply(
    draw: Random, stages: Sequence[Sequence[str]], reference: dict[str, float]
) -> list[ModelRow]:
    rows = []
    for currency in CURRENCIES:
        uses = weights(draw, stages[0], 0.85, 1.15)
        limit = value(uses, reference) * draw.uniform(1.08, 1.14)
        rows.append(ModelRow(name=f"supply_{currency}", coefficients=uses, upper=round(limit, 1)))
    return rows


def _links(
    draw: Random, stages: Sequence[Sequence[str]], reference: dict[str, float]
) -> list[ModelRow]:
    rows = []
    for stage, (before, after) in enumerate(pairwise(stages), start=1):
        for currency in CURRENCIES:
            gives = weights(draw, before, 0.92, 1.08)
            takes = weights(draw, after, 0.92, 1.08)
            terms = takes | {name: -amount for name, amount in gives.items()}
            stock = value(terms, reference) + draw.uniform(0.5, 2)
            name = f"link_{stage}_{currency}"
            rows.append(ModelRow(name=name, coefficients=terms, upper=round(stock, 1)))
    return rows


def _demand(
    draw: Random, stages: Sequence[Sequence[str]], reference: dict[str, float]
) -> list[ModelRow]:
    rows = []
    for currency in CURRENCIES:
        counts = weights(draw, stages[-1], 0.85, 1.15)
        least = value(counts, reference) * DEMAND_SHARE
        rows.append(ModelRow(name=f"demand_{currency}", coefficients=counts, lower=round(least, 1)))
    return rows


def _capacities(
    draw: Random,
    shape: ModelShape,
    stages: Sequence[Sequence[str]],
    reference: dict[str, float],
    switches: Sequence[str],
) -> list[ModelRow]:
    """Return rows for work shared by units of any stage; a switch adds capacity for its price."""
    units = [name for stage in stages for name in stage]
    rows = []
    for at in range(shape.num_capacities):
        uses = weights(draw, draw.sample(units, min(len(units), draw.randint(3, 6))), 0.3, 2.0)
        limit = value(uses, reference) * draw.uniform(1.25, 1.5)
        extra = {
            switch: -float(draw.randint(3, 8)) for switch in switches[at :: shape.num_capacities]
        }
        name = f"capacity_{at + 1}"
        rows.append(ModelRow(name=name, coefficients=uses | extra, upper=round(limit, 1)))
    return rows


def _floors(
    draw: Random, shape: ModelShape, stages: Sequence[Sequence[str]], reference: dict[str, float]
) -> list[ModelRow]:
    """Return rows with a high but feasible minimum output of a stage's main units."""
    rows = []
    for at in range(shape.num_floors):
        units = sorted(draw.choice(stages), key=reference.__getitem__, reverse=True)
        counts = weights(draw, units[: draw.randint(1, 2)], 0.6, 1.4)
        least = value(counts, reference) * draw.uniform(0.7, 0.85)
        rows.append(ModelRow(name=f"floor_{at + 1}", coefficients=counts, lower=round(least, 1)))
    return rows


def _contracts(
    draw: Random, shape: ModelShape, stages: Sequence[Sequence[str]], reference: dict[str, float]
) -> list[ModelRow]:
    """Return rows over a stage's output, with a very different weight for a single unit."""
    rows = []
    for at in range(shape.num_contracts):
        units = draw.choice(stages)
        counts = weights(draw, units, 0.6, 1.3)
        if draw.random() < 0.5:
            counts[draw.choice(units)] = _round(draw.uniform(2.5, 5.0))
            side = {"lower": round(value(counts, reference) * draw.uniform(0.5, 0.7), 1)}
        else:
            counts[draw.choice(units)] = _round(draw.choice([-5, 0.15]) * draw.uniform(0.5, 1.0))
            typical = value(counts, reference)
            side = {"upper": round(typical + draw.uniform(0.3, 0.5) * abs(typical) + 5, 1)}
        rows.append(
            ModelRow.model_validate({"name": f"contract_{at + 1}", "coefficients": counts} | side)
        )
    return rows


def _limits(
    draw: Random, shape: ModelShape, stages: Sequence[Sequence[str]], extremes: Extremes
) -> list[ModelRow]:
    """Return implied limits of a stage's output, with room to spare, like a planner's checks."""
    rows = []
    for at in range(shape.num_limits):
        counts = weights(draw, draw.choice(stages), 0.75, 1.25)
        maximise = draw.random() < 0.5
        extreme = extremes.of(counts, maximise).best
        side = {"upper": extreme * 1.2} if maximise else {"lower": extreme * 0.8}
        rows.append(
            ModelRow.model_validate(
                {
                    "name": f"limit_{at + 1}",
                    "coefficients": counts,
                    **{key: round(amount, 1) for key, amount in side.items()},
                }
            )
        )
    return rows
