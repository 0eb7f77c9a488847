"""A small broken model to work out by hand, and models at random."""

import math
import random

from assay_reward.or_debug.models.iis import Irreducible
from assay_reward.or_debug.models.instance import Instance, SetRow
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_shared.types import EnvironmentTask, Task
from tests.support.fakes import make_task

#: c3 was `x1 + x2 <= 12`; the optimum was 27, at x1 = 7 and x2 = 3. c4 and c5 play no part.
BROKEN = OptimizationModel(
    columns=(
        Column(name="x1", cost=3.0, upper=20.0),
        Column(name="x2", cost=2.0, upper=20.0),
        Column(name="x3", is_integer=True, upper=5.0),
    ),
    rows=(
        ModelRow(name="c1", coefficients={"x1": 1.0, "x2": 1.0}, upper=10.0),
        ModelRow(name="c2", coefficients={"x1": 1.0, "x2": -1.0}, upper=4.0),
        ModelRow(name="c3", coefficients={"x1": 1.0, "x2": 1.0}, lower=12.0),
        ModelRow(name="c4", coefficients={"x3": 1.0}, lower=1.0, upper=4.0),
        ModelRow(name="c5", coefficients={"x3": 1.0, "x1": 0.001}, lower=-50.0),
    ),
)
OPTIMUM = 27.0
INSTANCE = Instance(
    id="planted",
    error_type="A",
    difficulty="easy",
    model=BROKEN,
    original_objective=OPTIMUM,
    root_cause=("c3",),
    fix=(SetRow(row=ModelRow(name="c3", coefficients={"x1": 1.0, "x2": 1.0}, upper=12.0)),),
    iis=Irreducible(rows=("c1", "c3")),
    num_single_repairs=2,
    names={"c3": "demand_flipped"},
)
REPAIR = ("Action: GET_IIS()", "It is c3.\nAction: DROP(c3)", "Action: SUBMIT(c3)")


def make_or_task(instance: Instance = INSTANCE, max_turns: int = 8) -> Task:
    return make_task(
        instance.id,
        prompt=f"Repair this.\n{instance.model.text()}",
        rubric="or_debug.faithful",
        tests=(),
        environment=EnvironmentTask(
            name="or_debug", instance=instance.model_dump(mode="json"), max_turns=max_turns
        ),
    )


def hard_model() -> OptimizationModel:
    """Market split: small, and far from solved in a tenth of a second."""
    rng = random.Random(1)
    names = [f"n{at}" for at in range(60)]
    columns = tuple(
        Column(name=name, cost=rng.uniform(1, 9), upper=1.0, is_integer=True) for name in names
    )
    rows = tuple(
        ModelRow(
            name=f"c{at}",
            coefficients={name: float(rng.randint(10**5, 10**6)) for name in names},
            lower=15e6,
            upper=15e6 + 10,
        )
        for at in range(5)
    )
    return OptimizationModel(columns=columns, rows=rows)


#: No solver tells in time what becomes of it.
HARD = INSTANCE.model_copy(update={"id": "hard", "model": hard_model()})


def random_model(rng: random.Random, num_columns: int = 5, num_rows: int = 6) -> OptimizationModel:
    """Rows of all senses with sides of all sizes; feasible or not."""
    columns = tuple(
        Column(
            name=f"x{at}",
            cost=rng.uniform(-5, 5),
            upper=rng.uniform(1, 20),
            is_integer=rng.random() < 0.3,
        )
        for at in range(num_columns)
    )
    return OptimizationModel(
        columns=columns, rows=tuple(random_row(rng, at, columns) for at in range(num_rows))
    )


def random_row(rng: random.Random, at: int, columns: tuple[Column, ...]) -> ModelRow:
    used = rng.sample(columns, rng.randint(1, len(columns)))
    coefficients = {column.name: rng.choice((-1, 1)) * rng.uniform(0.1, 5) for column in used}
    low = rng.uniform(-1, 1) * 10 ** rng.randint(0, 6)
    high = low + rng.uniform(0, 30)
    sides = {
        "<=": (-math.inf, high),
        ">=": (low, math.inf),
        "=": (low, low),
        "range": (low, high),
    }
    lower, upper = sides[rng.choice(list(sides))]
    return ModelRow(name=f"c{at}", coefficients=coefficients, lower=lower, upper=upper)
