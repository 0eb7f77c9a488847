"""The plan of an ablation in a terminal."""

import json

from rich.console import Console
from rich.table import Table

from assay_shared.text.markdown import visible
from assay_trainer.ablation.arms import AblationPlan, arm_config, changed_fields

#: Fewer seeds decide nothing.
LEAST_SEEDS = 4


def show_plan(plan: AblationPlan, console: Console) -> None:
    """Print the arms with what they change, the number of runs, and what they can decide."""
    config = plan.config
    table = Table("arm", "compared with", "changes")
    configs = {arm.name: arm_config(plan, arm, config.seeds[0], None) for arm in plan.arms}
    for arm in plan.arms:
        changes = "the base"
        if arm.previous is not None:
            found = changed_fields(configs[arm.previous], configs[arm.name])
            changes = "; ".join(
                f"{name}: {json.dumps(old)} -> {json.dumps(new)}"
                for name, (old, new) in found.items()
            )
        table.add_row(visible(arm.name), arm.previous or "-", visible(changes or "nothing"))
    console.print(table)
    num, seeds = len(plan.arms) * len(config.seeds) + 1, len(config.seeds)
    console.print(f"{num} runs: the start, and {len(plan.arms)} arms with {seeds} seeds each")
    console.print(f"measured by {', '.join(config.evaluation.metrics)}; the first one ranks")
    if seeds < LEAST_SEEDS:
        console.print(
            f"with {seeds} seeds every comparison is INCONCLUSIVE: it takes {LEAST_SEEDS}"
        )
