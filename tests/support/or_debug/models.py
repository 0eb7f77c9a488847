"""Small models with known answers."""

import random

from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel


def feasible() -> OptimizationModel:
    """Its best point is x = 2, y = 6 with objective 36."""
    return OptimizationModel(
        columns=(Column(name="x", cost=3), Column(name="y", cost=5)),
        rows=(
            ModelRow(name="c1", coefficients={"x": 1}, upper=4),
            ModelRow(name="c2", coefficients={"y": 2}, upper=12),
            ModelRow(name="c3", coefficients={"x": 3, "y": 2}, upper=18),
        ),
    )


def infeasible() -> OptimizationModel:
    """c1, c2 and c3 contradict each other; c4 and the upper bounds have no part in it."""
    return OptimizationModel(
        columns=(Column(name="x", upper=50, cost=1), Column(name="y", upper=50, cost=1)),
        rows=(
            ModelRow(name="c4", coefficients={"x": 1, "y": 1}, upper=40),
            ModelRow(name="c1", coefficients={"x": 1, "y": -1}, lower=2),
            ModelRow(name="c2", coefficients={"y": 1}, lower=5),
            ModelRow(name="c3", coefficients={"x": 1}, upper=6),
        ),
    )


def only_integers_fail() -> OptimizationModel:
    """2x + 2y = 3 has solutions, but none in integers."""
    return OptimizationModel(
        columns=tuple(Column(name=name, upper=5, is_integer=True, cost=1) for name in "xy"),
        rows=(
            ModelRow(name="odd", coefficients={"x": 2, "y": 2}, lower=3, upper=3),
            ModelRow(name="idle", coefficients={"x": 1}, upper=4),
        ),
    )


def at_random(seed: int, is_integer: bool) -> OptimizationModel:
    """Up to 6 columns and 9 rows of all senses; most of these models are infeasible."""
    draw = random.Random(seed)
    names = [f"x{at}" for at in range(draw.randint(2, 6))]
    rows = []
    for at in range(draw.randint(3, 9)):
        used = draw.sample(names, draw.randint(1, len(names)))
        side = draw.randint(-10, 20)
        lower, upper = draw.choice([(None, side), (side, None), (side, side), (side, side + 4)])
        coefficients = {name: draw.choice([-3, -2, -1, 1, 2, 3]) for name in used}
        rows.append(
            ModelRow.model_validate(
                {"name": f"c{at}", "coefficients": coefficients, "lower": lower, "upper": upper}
            )
        )
    return OptimizationModel(
        columns=tuple(
            Column(
                name=name,
                upper=10,
                cost=draw.randint(-3, 3),
                is_integer=is_integer and draw.random() < 0.5,
            )
            for name in names
        ),
        rows=tuple(rows),
        maximise=draw.random() < 0.5,
    )
