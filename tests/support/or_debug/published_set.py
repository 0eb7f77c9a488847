"""A set in the published form with a problem of each type, worked out by hand."""

import json
import math
from pathlib import Path

from assay_reward.or_debug.models import mps
from assay_reward.or_debug.models.model import Column, ModelRow, OptimizationModel

ORIGINAL = OptimizationModel(
    columns=(
        Column(name="x0", cost=3, upper=10, is_integer=True),
        Column(name="x1", cost=2, upper=15),
        Column(name="x2", cost=1, upper=15),
    ),
    rows=(
        ModelRow(name="c0", coefficients={"x0": 1, "x1": 1, "x2": 1}, upper=20),
        ModelRow(name="c1", coefficients={"x0": 2, "x1": 1}, upper=19),
        ModelRow(name="c2", coefficients={"x1": 1, "x2": -1}, upper=6),
        ModelRow(name="c_key_lower", coefficients={"x0": 1, "x1": 1, "x2": 1}, lower=4),
        ModelRow(name="c_key_upper", coefficients={"x0": 1, "x1": 1, "x2": 1}, lower=1, upper=30),
    ),
)
#: At x0 = 4, x1 = 11 and x2 = 5.
OPTIMUM = 39.0


def row(name: str, column: str, low: float = -math.inf, high: float = math.inf) -> ModelRow:
    return ModelRow(name=name, coefficients={column: 1}, lower=low, upper=high)


def broken() -> dict[str, tuple[OptimizationModel, str]]:
    """By type: the published model, and the sentence with its fix."""
    with_link = ORIGINAL.replaced(columns=(*ORIGINAL.columns, Column(name="_hidden_aux_x1")))
    link = ModelRow(name="_hidden_link_x1", coefficients={"_hidden_aux_x1": 1, "x1": -1}, upper=5)
    share = ORIGINAL.column("x0").model_copy(update={"upper": 1.0})
    tight = ORIGINAL.column("x1").model_copy(update={"lower": 50.0})
    chain = ("_chain_constr_1", "_chain_cycle")
    return {
        "A": (
            ORIGINAL.with_row(ModelRow(name="c3", coefficients={"x0": 1, "x1": 1}, lower=24)),
            "Change c3 from >= back to <=",
        ),
        "B": (
            ORIGINAL.with_column(share).with_row(row("_force_x0", "x0", 2)),
            "Change x0 back to INTEGER with UB=10.0, remove _force_x0",
        ),
        "C": (
            ORIGINAL.with_row(
                ModelRow(name="_saboteur_lower_x1", coefficients={"x1": 0.1}, lower=2)
            ),
            "Change coefficient of x1 in _saboteur_lower_x1 from 0.1 back to 1.0",
        ),
        "D": (
            ORIGINAL.with_row(row(chain[0], "x1", 14)).with_row(row(chain[1], "x1", high=3)),
            f"Remove chain constraints: {', '.join(chain)}",
        ),
        "E": (
            ORIGINAL.with_row(row("_multi_constr_upper_x1", "x1", high=2)).with_row(
                row("_multi_constr_lower_x1", "x1", 15)
            ),
            "Remove BOTH constraints: _multi_constr_upper_x1 AND _multi_constr_lower_x1. "
            "Fixing only one will not restore feasibility.",
        ),
        "F": (
            with_link.with_row(link).with_row(row("_hidden_root_x1", "_hidden_aux_x1", 250)),
            "The root cause is constraint '_hidden_root_x1' which requires _hidden_aux_x1 >= 250.0,"
            " but _hidden_aux_x1 is linked to x1 (optimal value ~10.00). "
            "Remove or relax '_hidden_root_x1'.",
        ),
        "G": (
            ORIGINAL.with_row(row("c_85f445_ub", "x1", high=8)).with_row(
                row("c_85f445_lb", "x1", 18)
            ),
            "CASCADING CONFLICT: IIS may show 'c_85f445_ub', but fixing it alone will reveal "
            "conflict with 'c_85f445_lb'. Must remove BOTH constraints, or analyze why both exist "
            "before choosing repair.",
        ),
        "H": (
            ORIGINAL.with_column(tight).with_row(row("constr_572848", "x1", high=18)),
            "IIS-INCOMPLETE: The symptom constraint 'constr_572848' appears to be the problem, but "
            "the ROOT CAUSE is the tightened lower bound on 'x1' (changed from -0.0 to 50). "
            "Restore x1.LB = -0.0, don't just drop 'constr_572848'.",
        ),
        "I": (
            ORIGINAL.with_row(row("bound_c45f59_l", "x1", 10)).with_row(
                row("bound_c45f59_u", "x1", high=7)
            ),
            "OPTIMAL SELECTION: The upper bound 'bound_c45f59_u' was tightened from 14.00 to 7.00, "
            "conflicting with lower bound 'bound_c45f59_l' (10.00). Multiple fixes restore "
            "feasibility:\n  - SUBOPTIMAL: DROP bound_c45f59_l -> OP = 0 (changes objective)\n"
            "  - SUBOPTIMAL: RELAX bound_c45f59_u to RHS = 39.0 -> OP ~ 0.5 (too loose)\n"
            "  - CORRECT: RELAX bound_c45f59_u to RHS = 14.0 -> OP = 1.0 (restores the box)",
        ),
    }


def write_set(folder: Path) -> Path:
    """Write the set and return its folder."""
    (folder / "models").mkdir(parents=True)
    entries: list[dict[str, object]] = []
    for kind, (model, fix) in broken().items():
        name = f"mip_type{kind}_00{len(entries)}"
        mps.write(model, folder / "models" / f"{name}.mps")
        entries.append(entry(name, kind, fix))
    (folder / "dataset.json").write_text(json.dumps({"problems": entries}))
    return folder


def entry(name: str, kind: str, fix: str) -> dict[str, object]:
    return {
        "problem_id": name,
        "model_file": f"models/{name}.mps",
        "problem_nl": f"Linear programming problem {name}. Contains a Conflicting Constraint.",
        "error_type": kind,
        "ground_truth_fix": fix,
        "initial_status": "INFEASIBLE",
        "original_objective": OPTIMUM,
        "iis_constraints": [],
        "iis_bounds": [],
        "difficulty": "hard",
        "problem_type": "mip",
    }
