"""From the finished runs of an ablation to its report."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from assay_shared.errors import AssayError
from assay_shared.runs.run_folder import RunFolder
from assay_shared.statistics.paired import mean_over_tasks
from assay_shared.types import Task
from assay_shared.weights import checkpoint as weights
from assay_trainer.ablation.ablation_config import START, AblationConfig
from assay_trainer.ablation.arms import AblationArm, AblationPlan, arm_config, start_config
from assay_trainer.ablation.decomposition.batches import step_events
from assay_trainer.ablation.decomposition.findings import (
    Decomposition,
    PlantedChanges,
    SwitchVerdict,
)
from assay_trainer.ablation.decomposition.sampler import acts_by_answers
from assay_trainer.ablation.judging.differences import failed_counts, start_as_arm
from assay_trainer.ablation.judging.findings import (
    AblationReport,
    ArmCurvePoint,
    ArmRow,
    ChangeRow,
    GoalRow,
    TableRow,
    ValueBounds,
)
from assay_trainer.ablation.judging.goals import judge_goals, undecided
from assay_trainer.ablation.judging.judge import (
    LEAST_SEEDS,
    judge_changes,
    noise,
    value_row,
    within,
)
from assay_trainer.ablation.judging.measurements import (
    Key,
    MeasuredArm,
    MeasuredRun,
    read_run,
    refused,
    shared_draws,
)
from assay_trainer.ablation.judging.trivial import trivial_rows
from assay_trainer.ablation.metrics import is_lower_better
from assay_trainer.ablation.report import words
from assay_trainer.ablation.report.curves import curve_points, meters_of, seconds_of, tokens_of
from assay_trainer.ablation.report.winner import winner_of, write_winner
from assay_trainer.ablation.report.writing import write_report
from assay_trainer.ablation.running import AblationRun, previous_trained, start_weights
from assay_trainer.evaluation.metrics.failed_samples import failed_text
from assay_trainer.evaluation.records.folder import EvaluationFolder

COMPARED, REFUSED, FAILED = "COMPARED", "REFUSED", "FAILED"


@dataclass
class _Read:
    """What was read of all runs."""

    start: MeasuredRun
    arms: dict[str, MeasuredArm]
    controls: PlantedChanges
    rows: list[ArmRow]
    curves: list[ArmCurvePoint]

    @property
    def compared(self) -> list[MeasuredArm]:
        names = [row.name for row in self.rows if row.state in (COMPARED, SwitchVerdict.UNKNOWN)]
        return [self.arms[name] for name in names]


def make_report(run: AblationRun, trained: Sequence[AblationArm]) -> AblationReport:
    """Judge the trained arms, write all files of the report, and return it.

    Raises:
        NotFound: a run was not measured.
        DatasetError: a file of a run cannot be read.
    """
    found = _read(run, trained)
    plan, config = run.plan, run.plan.config
    keys = [
        (name, metric) for name, metric in found.start.values if found.start.values[name, metric]
    ]
    confidence = config.confidence
    ranks = found.controls.work
    pairs = _pairs(found)
    changes = judge_changes(pairs, keys, confidence) if ranks else []
    baseline = found.arms[plan.arms[0].name]
    others = [(arm, baseline) for arm in found.compared if arm.name != baseline.name]
    to_baseline = judge_changes(others, keys, confidence) if ranks else []
    notes: list[str] = []
    table = _table(run, found, keys, notes)
    ranking = _ranking(found, table, keys) if ranks else []
    metric = config.evaluation.metrics[0]
    winner, why = winner_of(ranking, baseline.name, to_baseline, metric)
    best = ranking[0] if ranking else None
    report = AblationReport(
        name=run.folder.path.name,
        mode=config.mode,
        seeds=list(config.seeds),
        confidence=confidence,
        metrics=list(config.evaluation.metrics),
        controls_work=ranks,
        controls=found.controls.controls,
        arms=_ranked(found.rows, ranking),
        table=table,
        changes=changes,
        to_baseline=to_baseline,
        noise=[row for key in keys if (row := noise(found.compared, key)) is not None],
        goals=_goals(config, found, best),
        ranking=ranking,
        winner=winner,
        winner_reason=why if ranks else _fault(found),
        start_digest=weights.digest(start_weights(run.folder)),
        curves=found.curves,
        notes=[*_notes_of_failed(run), *notes, *_notes(plan, found, changes)],
    )
    write_report(report, run.folder)
    write_winner(run.folder, report)
    return report


def _goals(config: AblationConfig, found: _Read, best: str | None) -> list[GoalRow]:
    if not found.controls.work:
        return undecided(config.goals, _fault(found))
    return judge_goals(config.goals, found.arms, found.start, best, config.confidence)


def _fault(found: _Read) -> str:
    return f"the {words.fault_of_checks(found.controls.controls)}"


def _read(run: AblationRun, trained: Sequence[AblationArm]) -> _Read:
    folder, plan = run.folder, run.plan
    metrics, seeds = plan.config.evaluation.metrics, plan.config.seeds
    arms = {
        arm.name: MeasuredArm(
            arm.name,
            {seed: read_run(folder, folder.run(arm.name, seed), metrics) for seed in seeds},
        )
        for arm in trained
    }
    found = _Read(
        read_run(folder, folder.start, metrics),
        arms,
        PlantedChanges.model_validate_json(folder.controls.read_bytes()),
        [],
        [],
    )
    for arm in plan.arms:
        found.rows.append(_arm_row(run, arm, trained, found))
        if arm.name in arms:
            found.curves += _curves(run, arm)
    return found


def _arm_row(
    run: AblationRun, arm: AblationArm, trained: Sequence[AblationArm], found: _Read
) -> ArmRow:
    """Return an arm's row: its change and state, and what its runs cost."""
    plan, folder = run.plan, run.folder
    path = folder.decomposition(arm.name)
    parts = Decomposition.model_validate_json(path.read_bytes()) if path.exists() else None
    seed = plan.config.seeds[0]
    changed = parts.changed if parts is not None else {}
    against = previous_trained(plan, arm, trained).name if arm.previous is not None else None
    state, reason = COMPARED, parts.reason if parts is not None else "the baseline"
    if parts is not None and not parts.verdict.is_compared:
        state = parts.verdict.value
    row = ArmRow(
        name=arm.name,
        previous=arm.previous,
        against=against,
        changed=changed,
        state=state,
        reason=reason,
        decomposition=parts,
    )
    if arm.name in run.failed:
        return row.model_copy(update={"state": FAILED, "reason": run.failed[arm.name]})
    if arm.name not in found.arms:
        return row
    differing = refused(found.arms[plan.arms[0].name], found.arms[arm.name])
    if differing:
        row = row.model_copy(update={"state": REFUSED, "reason": "; ".join(differing[:4])})
    elif against is not None:
        row = row.model_copy(update=_without_effect(run, found, (arm.name, against), changed))
    shared = shared_draws(found.arms[arm.name], found.arms[against]) if against else None
    return row.model_copy(update={**_costs(run, arm, seed), "shared_draws": shared})


def _without_effect(
    run: AblationRun, found: _Read, names: tuple[str, str], changed: Collection[str]
) -> dict[str, str]:
    """Return state and reason of an arm that was trained as the other one was; else nothing."""
    arm, other = (found.arms[name] for name in names)
    if _has_equal_weights(arm, other):
        if any(_is_updated(one) for name in names for one in _runs(run, name)):
            told = f"after training, its weights are those of {names[1]} in every seed"
            return {"state": SwitchVerdict.NO_EFFECT.value, "reason": told}
        told = f"no update was made in it or in {names[1]}, as where no group has signal"
        return {"state": SwitchVerdict.UNKNOWN.value, "reason": told}
    if changed and acts_by_answers(changed) and _has_equal_samples(arm, other):
        told = f"it trained on the answers and rewards of {names[1]} in every step and seed"
        return {"state": SwitchVerdict.NO_EFFECT.value, "reason": told}
    return {}


def _has_equal_weights(arm: MeasuredArm, other: MeasuredArm) -> bool:
    return all(
        run.weights == other.runs[seed].weights
        for seed, run in arm.runs.items()
        if seed in other.runs
    )


def _has_equal_samples(arm: MeasuredArm, other: MeasuredArm) -> bool:
    """Return True if both arms trained on the same, in every seed.

    Weights may differ all the same: an engine rounds log-probabilities by the rest of a batch.
    """
    pairs = [(run, other.runs[seed]) for seed, run in arm.runs.items() if seed in other.runs]
    return all(run.samples and run.samples == theirs.samples for run, theirs in pairs)


def _is_updated(run: RunFolder) -> bool:
    """Return True if a step of a run had a gradient."""
    return any(one.grad_norm > 0 for one in step_events(run))


def _runs(run: AblationRun, arm: str) -> list[RunFolder]:
    return [RunFolder(run.folder.run(arm, one)) for one in run.plan.config.seeds]


def _costs(run: AblationRun, arm: AblationArm, seed: int) -> dict[str, object]:
    grpo = arm_config(run.plan, arm, seed, None).grpo
    assert grpo is not None
    runs = _runs(run, arm.name)
    steps = [step_events(one) for one in runs]
    tokens = sum((tokens_of(one, grpo.group_size) or [0.0])[-1] for one in steps)
    return {
        "updates": sum(len(one) for one in steps) * grpo.updates_per_step,
        "drawn_tokens": tokens,
        "took_s": sum(seconds_of(one) for one in runs),
        "meters": meters_of([step for one in steps for step in one]),
    }


def _curves(run: AblationRun, arm: AblationArm) -> list[ArmCurvePoint]:
    found: list[ArmCurvePoint] = []
    for seed in run.plan.config.seeds:
        grpo = arm_config(run.plan, arm, seed, None).grpo
        assert grpo is not None
        folder = RunFolder(run.folder.run(arm.name, seed))
        start = RunFolder(run.folder.start)
        found += curve_points(arm.name, seed, folder, start, grpo.group_size)
    return found


def _pairs(found: _Read) -> list[tuple[MeasuredArm, MeasuredArm]]:
    compared = {arm.name for arm in found.compared}
    return [
        (found.arms[row.name], found.arms[row.against])
        for row in found.rows
        if row.name in compared and row.against in compared
    ]


def _table(run: AblationRun, found: _Read, keys: Sequence[Key], notes: list[str]) -> list[TableRow]:
    """Return the rows of trivial policies, the start and the arms; notes say what is missing."""
    confidence = run.plan.config.confidence
    arms = [value_row(arm, key, confidence) for arm in found.arms.values() for key in keys]
    start = [_start_row(found.start, key, confidence) for key in keys]
    return [*_trivial(run, keys, notes), *start, *(row for row in arms if row is not None)]


def _start_row(start: MeasuredRun, key: Key, confidence: float) -> TableRow:
    values = list(start.values[key].values())
    found = mean_over_tasks(values, confidence, 0)
    bounds = ValueBounds(value=found.value, low=found.low, high=found.high)
    return TableRow(
        policy=START,
        kind=START,
        set=key[0],
        metric=key[1],
        value=within(bounds, key[1], values),
        num_tasks=len(values),
        failed=next(iter(failed_counts([start_as_arm(start, [0])], key[0])), None),
    )


def _trivial(run: AblationRun, keys: Sequence[Key], notes: list[str]) -> list[TableRow]:
    metrics = run.plan.config.evaluation.metrics
    if not keys:
        return []
    try:
        tasks = _measured_tasks(run, keys[0][0])
        return trivial_rows(tasks, keys[0][0], metrics, run.settings, run.folder.trivial)
    except (AssayError, OSError) as error:
        notes.append(f"Policies without skill are missing: {error}")
        return []


def _measured_tasks(run: AblationRun, set_name: str) -> list[Task]:
    """Return the tasks of a measured set, as the start's run has them."""
    measured: EvaluationFolder = run.folder.measured(run.folder.start)
    lines = measured.tasks(set_name).read_text().splitlines()
    wanted = {json.loads(line)["id"] for line in lines}
    return [task for task in _tasks_of(run, set_name) if task.id in wanted]


def _tasks_of(run: AblationRun, set_name: str) -> list[Task]:
    from assay_trainer.data.dataset import DatasetPurpose, open_dataset

    (tier,) = start_config(run.plan).evaluation.tiers
    source = tier.sets[set_name]
    return list(open_dataset(source, DatasetPurpose.EVALUATE, run.settings.data).tasks)


def _ranking(found: _Read, table: Sequence[TableRow], keys: Sequence[Key]) -> list[str]:
    """Return the compared arms by the first metric, the best first."""
    names = {arm.name for arm in found.compared}
    rows = [row for row in table if row.policy in names and (row.set, row.metric) == keys[0]]
    lower = is_lower_better(keys[0][1])
    return [r.policy for r in sorted(rows, key=lambda r: r.value.value, reverse=not lower)]


def _ranked(rows: Sequence[ArmRow], ranking: Sequence[str]) -> list[ArmRow]:
    return [
        row.model_copy(update={"rank": ranking.index(row.name) + 1}) if row.name in ranking else row
        for row in rows
    ]


def _notes_of_failed(run: AblationRun) -> list[str]:
    """Return a sentence for each arm that cannot run."""
    return [f"{name} has failed: it is not ranked, and its row says why." for name in run.failed]


def _notes(plan: AblationPlan, found: _Read, changes: Sequence[ChangeRow]) -> list[str]:
    """Return sentences that a reader needs before the numbers."""
    notes, seeds = [], len(plan.config.seeds)
    if seeds < LEAST_SEEDS:
        notes.append(
            f"With {seeds} of the {LEAST_SEEDS} seeds that it takes, nothing could have been "
            f"decided: the spread of seeds is not known, so every verdict is INCONCLUSIVE."
        )
    else:
        notes += words.of_power(changes)
    notes += notes_of_equal_metrics(changes)
    weak = [row.name for row in found.rows if _is_weak(row)]
    if weak:
        notes.append(
            f"{', '.join(weak)}: the gradients of the stored batches change by less than 1%, so a "
            f"difference is likely to be chance."
        )
    arms = [start_as_arm(found.start, [0]), *found.arms.values()]
    for name in dict.fromkeys(key[0] for key in found.start.values):
        told = failed_text(failed_counts(arms, name))
        if told:
            notes.append(
                f"{name}: {told}. They are in no number; a verdict holds only if it also holds "
                f"with them counted against it."
            )
    return notes


def notes_of_equal_metrics(changes: Sequence[ChangeRow]) -> list[str]:
    """Return a sentence for each metric with the same test as another one."""
    pairs = {(row.same_as, row.metric, row.set): None for row in changes if row.same_as is not None}
    return [
        f"{first} and {other} of {name} have the same numbers for every task of every seed: they "
        f"are one test, and count once in Holm's correction."
        for first, other, name in pairs
    ]


def _is_weak(row: ArmRow) -> bool:
    return row.decomposition is not None and row.decomposition.verdict is SwitchVerdict.WEAK
