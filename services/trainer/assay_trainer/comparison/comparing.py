"""The comparison of arms: rows with verdicts, expectations, rules and turned answers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay_shared.errors import InvalidInput
from assay_trainer.comparison.anomalies import (
    AnomalyRule,
    RuleResult,
    apply_rules,
    unused_rules,
)
from assay_trainer.comparison.arms import ComparedArm, ComparedSet, SeedEvaluation
from assay_trainer.comparison.comparability import (
    check_arms,
    check_prompts,
    check_tags,
    differences,
    notes,
    refuse_differences,
)
from assay_trainer.comparison.expectations import Expectation, ExpectationResult, judge
from assay_trainer.comparison.flips import SetFlips, flips_of
from assay_trainer.comparison.metrics import ALIASES, Metric, all_metrics
from assay_trainer.comparison.results import ComparedRow, FrozenResult
from assay_trainer.comparison.rows import Margins, Measure, rows_of
from assay_trainer.comparison.verdicts import with_verdicts


@dataclass(frozen=True)
class ComparisonPlan:
    """What to compare and to check, apart from the arms."""

    confidence: float = 0.95
    margins: Margins = field(default_factory=Margins)
    #: Names of metrics; all without.
    metrics: Sequence[str] = ()
    tags: Sequence[str] = ()
    expectations: Sequence[Expectation] = ()
    rules: Sequence[AnomalyRule] = ()
    #: Say which rules could not be checked.
    tells_unused_rules: bool = False
    allow_different: bool = False
    on_row: Callable[[], None] = field(default=lambda: None)


class SetFacts(FrozenResult):
    """A set as one evaluation measured it."""

    digest: str | None
    scorers: list[str]
    num_tasks: int
    num_samples: int
    #: Samples without a score: in no number.
    num_failed: int
    num_set_aside: int
    #: Scored samples by outcome.
    outcomes: dict[str, int]
    #: Scored samples a second, in the time in which the set was played; null if not recorded.
    samples_per_s: float | None


class EvaluationFacts(FrozenResult):
    """An evaluation that was read."""

    name: str
    path: str
    files_digest: str
    policy: str
    policy_digest: str | None
    protocol_digest: str | None
    settings: dict[str, str]
    sets: dict[str, SetFacts]


class ComparisonData(FrozenResult):
    """comparison_data.json."""

    form: int = 1
    confidence: float
    baseline: str
    arms: list[str]
    evaluations: dict[str, list[EvaluationFacts]]
    #: Differences in protocol, sets, scorers or engine that were allowed.
    different: list[str]
    notes: list[str]
    num_tests: int
    rows: list[ComparedRow]
    expectations: list[ExpectationResult]
    rules: list[RuleResult]
    flips: list[SetFlips]


def compare_arms(
    baseline: ComparedArm, others: Sequence[ComparedArm], plan: ComparisonPlan
) -> ComparisonData:
    """Return the comparison of each arm with the baseline.

    Raises:
        InvalidInput: the arms cannot be compared, or no task has a tag; says why.
        ConfigError: an expectation or a metric names nothing that was measured.
    """
    check_arms(baseline, others)
    check_tags([baseline, *others], plan.tags)
    found = differences(baseline, others)
    if not plan.allow_different:
        refuse_differences(found)
    for arm in others:
        check_prompts(baseline, arm)
    measure = Measure(_metrics(baseline, others, plan), plan.confidence, plan.margins, plan.tags)
    measured = [row for arm in others for row in rows_of(baseline, arm, measure, plan.on_row)]
    if not any(row.num_tasks and row.baseline and row.value for row in measured):
        raise InvalidInput(_nothing_shared(baseline, others, plan.metrics))
    rows = with_verdicts(measured, 1 - plan.confidence)
    names = [arm.name for arm in others]
    rules = apply_rules(plan.rules, rows, names)
    unused = unused_rules(plan.rules, rows, rules) if plan.tells_unused_rules else []
    return ComparisonData(
        confidence=plan.confidence,
        baseline=baseline.name,
        arms=names,
        evaluations={
            arm.name: [_facts(one) for one in arm.measurements] for arm in (baseline, *others)
        },
        different=found,
        notes=[
            *notes(baseline, others),
            *_uncompared(baseline, others),
            *_of_machine(rows),
            *_equal(rows),
            *unused,
        ],
        num_tests=sum(row.p is not None for row in rows),
        rows=rows,
        expectations=judge(plan.expectations, rows, names),
        rules=rules,
        flips=[one for arm in others for one in flips_of(baseline, arm)],
    )


def _metrics(
    baseline: ComparedArm, others: Sequence[ComparedArm], plan: ComparisonPlan
) -> list[Metric]:
    """Return the metrics: those of the plan, with each k that both sides have, and k of 1."""
    arms = (baseline, *others)
    ks = [set(one.k) for arm in arms for one in arm.measurements]
    wanted = {1} | (set.intersection(*ks) if ks else set())
    named = [*plan.metrics, *(one.metric for one in plan.expectations)]
    wanted |= {int(name.removeprefix("pass@")) for name in named if name.startswith("pass@")}
    kinds = {one.kind for arm in arms for one in arm.measurements if one.kind is not None}
    metrics = all_metrics(wanted, kinds)
    if not plan.metrics:
        return metrics
    kept = {ALIASES.get(name, name) for name in named}
    return [one for one in metrics if one.name in kept]


def _nothing_shared(
    baseline: ComparedArm, others: Sequence[ComparedArm], metrics: Sequence[str]
) -> str:
    names = {name for arm in others for name in arm.set_names} & set(baseline.set_names)
    if not names:
        theirs = ", ".join(sorted({name for arm in others for name in arm.set_names})) or "none"
        own = ", ".join(baseline.set_names) or "none"
        return f"no set is in both: {baseline.name} has {own}, and the others have {theirs}"
    if metrics and all(
        any(one.num_scored for one in arm.sets_of(name))
        for name in names
        for arm in (baseline, *others)
    ):
        return f"no evaluation of {', '.join(sorted(names))} tells {', '.join(metrics)}"
    return (
        f"no task of {', '.join(sorted(names))} has scored samples on both sides: "
        f"{'; '.join(_counts(arm, name) for name in sorted(names) for arm in (baseline, *others))}"
    )


def _counts(arm: ComparedArm, name: str) -> str:
    sets = arm.sets_of(name)
    if not sets:
        return f"{arm.name} lacks {name}"
    scored, failed = sum(one.num_scored for one in sets), sum(one.num_failed for one in sets)
    return f"{arm.name} has {scored} scored samples of {name}, and {failed} without a score"


def _uncompared(baseline: ComparedArm, others: Sequence[ComparedArm]) -> list[str]:
    """Return sentences on sets of one side alone, and on k that not all evaluations have."""
    found = []
    for arm in others:
        missing = [name for name in baseline.set_names if name not in arm.set_names]
        new = [name for name in arm.set_names if name not in baseline.set_names]
        if missing:
            found.append(f"{arm.name} lacks {', '.join(missing)}.")
        if new:
            found.append(f"{', '.join(new)}: new in {arm.name}, without a baseline.")
    for arm in (baseline, *others):
        for name in arm.set_names:
            if not arm.sets_of(name):
                found.append(f"{name} is not in every seed of {arm.name}, and is left out.")
    ks: list[set[int]] = [set(one.k) for arm in (baseline, *others) for one in arm.measurements]
    left_out = sorted(set[int]().union(*ks) - ks[0].intersection(*ks))
    if left_out:
        shown = ", ".join(f"pass@{k}" for k in left_out)
        found.append(f"{shown}: not a number of every evaluation, and left out.")
    return found


def _of_machine(rows: Sequence[ComparedRow]) -> list[str]:
    """Return a sentence on the rows that have no test because they move with the machine."""
    names = dict.fromkeys(row.title for row in rows if row.of_machine)
    if not names:
        return []
    return [
        f"Without a change or a test: {', '.join(names)}. These move with the machine and its "
        f"load, which all tasks of an evaluation share."
    ]


def _equal(rows: Sequence[ComparedRow]) -> list[str]:
    """Return sentences on the rows that have no test because they equal another row."""
    titles = {row.metric: row.title for row in rows}
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.equal_to is not None:
            twin = titles.get(row.equal_to, row.equal_to)
            found.setdefault((row.title, twin), []).append(row.place)
    return [
        f"{title}: equal to {twin} on {', '.join(dict.fromkeys(places))}, so it has no own test."
        for (title, twin), places in found.items()
    ]


def _facts(one: SeedEvaluation) -> EvaluationFacts:
    return EvaluationFacts(
        name=one.name,
        path=str(one.path),
        files_digest=one.files_digest,
        policy=one.policy,
        policy_digest=one.policy_digest,
        protocol_digest=one.protocol_digest,
        settings={**one.settings, **one.free_settings},
        sets={name: _set_facts(tasks) for name, tasks in one.sets.items()},
    )


def _set_facts(tasks: ComparedSet) -> SetFacts:
    scored = tasks.num_scored
    return SetFacts(
        digest=tasks.digest,
        scorers=list(tasks.scorers or ()),
        num_tasks=len(tasks.tasks),
        num_samples=scored + tasks.num_failed,
        num_failed=tasks.num_failed,
        num_set_aside=tasks.num_set_aside,
        outcomes=dict(
            Counter(str(one.outcome) for task in tasks.tasks.values() for one in task.samples)
        ),
        samples_per_s=tasks.samples_per_s,
    )
