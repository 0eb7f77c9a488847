"""What is refused of a curriculum once its tasks are known."""

from collections.abc import Iterator, Sequence
from math import floor
from statistics import NormalDist

from assay_shared.statistics.interval import wilson_bounds
from assay_shared.types import Task
from assay_trainer.config import RunConfig
from assay_trainer.curriculum.selection import StageTasks, measured_stages, stage_tasks
from assay_trainer.curriculum.staged_order import check_steps
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.inert_rules import InertSwitch, refuse_switches


def check_stages(
    config: RunConfig, training: Sequence[Task] | None, held_out: Sequence[Task] | None
) -> None:
    """Check the stages of a run against its tasks; of a set that is None, nothing is said.

    Raises:
        ConfigError: no task has a stage's tags, GRPO ends before the stages do, or a pass rate
            cannot be shown by as few held-out tasks as its stage has.
        RoleError: the end of a stage would depend on rows for tests.
    """
    curriculum, grpo = config.curriculum, config.grpo
    if curriculum is None or grpo is None:
        return
    if training is not None:
        stages = stage_tasks(curriculum, training, "training")
        check_steps(curriculum, stages, grpo.steps, grpo.groups_per_step)
    if held_out is not None:
        measured = measured_stages(curriculum, held_out)
        refuse_switches([*_unshown_pass_rates(curriculum, measured)], config)


def _unshown_pass_rates(
    curriculum: CurriculumConfig, measured: Sequence[StageTasks]
) -> Iterator[InertSwitch]:
    """Find pass rates that lie above the lower bound even if every held-out task is solved."""
    if curriculum.measure is None:
        return
    limit = curriculum.measure.limit
    for stage, tasks in zip(curriculum.stages, measured, strict=True):
        until = stage.until
        if until is None:
            continue
        num = min(len(tasks.tasks), limit or len(tasks.tasks))
        most, _ = wilson_bounds(1.0, num, until.confidence)
        if most >= until.pass_rate:
            continue
        shown = floor(1000 * most) / 1000
        needed = _least_tasks(until.pass_rate, until.confidence)
        where = "data.held_out" if num == len(tasks.tasks) else "curriculum.measure.limit"
        yield InertSwitch(
            f"curriculum.stages {stage.name}.until.pass_rate",
            f"pass_rate {until.pass_rate:g} cannot end the stage {stage.name}: with {num} held-out "
            f"tasks, all of them solved, the lower bound is {shown:.3f}",
            f"set pass_rate to at most {shown:.3f}, or measure the stage on {needed} tasks "
            f"({where})",
        )


def _least_tasks(pass_rate: float, confidence: float) -> int:
    """Return the tasks whose lower bound is at least `pass_rate` if all are solved."""
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    num = max(1, floor(z * z * pass_rate / (1 - pass_rate)))
    while wilson_bounds(1.0, num, confidence)[0] < pass_rate:
        num += 1
    return num
