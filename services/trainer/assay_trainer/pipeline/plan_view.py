"""A plan as tables for a terminal."""

from rich.console import Console
from rich.table import Table

from assay_trainer.pipeline.plan import Plan, StepPlan
from assay_trainer.pipeline.plan_stages import MemoryPlan, StagePlan

_GIB = 2**30


def show_plan(plan: Plan, console: Console, *, as_json: bool) -> None:
    """Print what a run needs, then what is wrong with it; or all of it as JSON."""
    if as_json:
        console.print(plan.model_dump_json(indent=2), highlight=False, markup=False, soft_wrap=True)
        return
    table = Table(title=f"plan of {plan.run}", title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("how much", justify="right", no_wrap=True)
    table.add_column("note")
    if plan.num_weights is not None:
        trained = f"{plan.num_trained:,} trained, {plan.num_multiplied:,} count for MFU"
        table.add_row("weights", f"{plan.num_weights:,}", trained)
    for stage in plan.stages:
        _add_stage(table, stage)
    if plan.memory is not None:
        _add_memory(table, plan.memory)
    if plan.signal is not None:
        share = plan.signal.share
        when = ", before SFT or DPO" if plan.is_before_sft else ""
        table.add_row(
            "groups with signal",
            f"{share.value:.1%}",
            f"{share.low:.1%} to {share.high:.1%} (95%), {plan.signal.num_groups} groups{when}",
        )
        table.add_row("pass rate", f"{plan.signal.pass_rate:.1%}", f"of sampled answers{when}")
    if plan.step is not None:
        _add_step(table, plan.step)
    if table.row_count:
        console.print(table)
    for one in plan.findings:
        mark = "refused" if one.refused else "check"
        where = f"{one.field}: " if one.field else ""
        console.print(
            f"{mark}: {where}{one.message}", highlight=False, markup=False, soft_wrap=True
        )
    if not plan.findings:
        console.print("nothing is wrong with the settings")


def _add_stage(table: Table, stage: StagePlan) -> None:
    rows = "" if stage.num_rows is None else f"{stage.num_rows:,} rows, "
    note = f"updates, {rows}{stage.tokens:,} tokens at once, {_size(stage.estimate.total)}"
    table.add_row(stage.stage, f"{stage.num_updates:,}", note)


def _add_memory(table: Table, memory: MemoryPlan) -> None:
    cards = f"card, {memory.num_cards} in all" if memory.card else "process, on a CPU"
    sizes = memory.estimate.model_dump() | {"process": memory.process}
    for name, size in sizes.items():
        if size:
            table.add_row(f"memory: {name}", _size(size), "")
    notes = [f"estimated, in {memory.stage}, a {cards}"]
    if memory.measured is not None:
        notes.append(f"{_size(memory.measured)} measured")
    if memory.card is not None:
        notes.append(f"the card has {_size(memory.card)}")
    table.add_row("memory", _size(memory.estimated_total), ", ".join(notes))


def _add_step(table: Table, step: StepPlan) -> None:
    table.add_row("tokens of a step", f"{step.num_tokens:,}", f"{step.num_groups} groups played")
    for name in ("rollouts", "update", "publish"):
        table.add_row(f"time: {name}", f"{getattr(step, f'{name}_s'):.2f} s", "")
    rate = "" if step.mfu is None else f", MFU {step.mfu:.1%}"
    speed = f"the update reads {step.tokens_per_s:,.0f} tokens/s{rate}"
    table.add_row("time of a step", f"{step.step_s:.2f} s", speed)


def _size(num_bytes: int) -> str:
    if num_bytes < _GIB / 10:
        return f"{num_bytes / 2**20:.1f} MiB"
    return f"{num_bytes / _GIB:.2f} GiB"
