import random
from typing import cast

import pytest

from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel
from assay_reward.or_debug.models.solver import Engine, is_feasible, solve
from assay_shared.errors import ConfigError, TimedOut
from tests.support.or_debug.models import at_random, feasible, infeasible, only_integers_fail

ENGINES: list[Engine] = ["highs", "scip"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_engines_say_what_is_true(engine: Engine) -> None:
    best = solve(feasible(), 10, engine)
    assert best.status == "optimal"
    assert best.objective == pytest.approx(36)
    assert best.values == pytest.approx({"x": 2, "y": 6})
    assert solve(infeasible(), 10, engine).status == "infeasible"
    assert solve(only_integers_fail(), 10, engine).status == "infeasible"
    endless = OptimizationModel(columns=(Column(name="x", cost=1),))
    assert solve(endless, 10, engine).status == "unbounded"
    assert solve(endless.model_copy(update={"maximise": False}), 10, engine).objective == 0


@pytest.mark.parametrize("seed", range(60))
def test_two_engines_agree_on_models_of_all_senses(seed: int) -> None:
    model = at_random(seed, is_integer=seed % 2 == 1)
    one, other = (solve(model, 10, engine) for engine in ENGINES)
    assert one.status == other.status
    if one.objective is not None:
        assert one.objective == pytest.approx(other.objective, abs=1e-5)
    assert is_feasible(model, 10) == (one.status != "infeasible")


def hard() -> OptimizationModel:
    """Return a market split problem: far too hard to decide in a moment."""
    draw, names = random.Random(1), [f"x{at}" for at in range(50)]
    rows = [[draw.randint(1, 99) for _ in names] for _ in range(6)]
    return OptimizationModel(
        columns=tuple(Column(name=name, upper=1, is_integer=True) for name in names),
        rows=tuple(
            ModelRow(
                name=f"c{at}",
                coefficients=dict(zip(names, values, strict=True)),
                lower=sum(values) // 2,
                upper=sum(values) // 2,
            )
            for at, values in enumerate(rows)
        ),
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_time_out_is_a_fault_that_can_be_retried_and_no_status(engine: Engine) -> None:
    with pytest.raises(TimedOut, match="needed more than 0.2 s") as caught:
        solve(hard(), 0.2, engine)
    assert caught.value.retryable


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_that_presolve_fails_on_is_solved_without_it(engine: Engine) -> None:
    """HiGHS 1.15.1 ends with "Solve error" on it if presolve is on."""
    model = OptimizationModel(
        columns=(
            Column(name="x1", lower=None, is_integer=True),
            Column(name="x2", lower=None, is_integer=True),
            Column(name="x3"),
        ),
        rows=(
            ModelRow(name="c1", coefficients={"x1": -0.98, "x2": -1.01, "x3": -1.01}, upper=-92.9),
            ModelRow(name="c2", coefficients={"x1": 0.95, "x2": 1.02, "x3": 1.02}, upper=0.5),
        ),
    )
    assert solve(model, 10, engine).is_optimal


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="there are highs, scip, gurobi"):
        solve(feasible(), 1, cast(Engine, "cplex"))
