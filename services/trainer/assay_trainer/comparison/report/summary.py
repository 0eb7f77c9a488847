"""The summary of a comparison: plain sentences for a chat, the verdict first."""

from collections.abc import Iterator

from assay_trainer.comparison.anomalies import RuleState
from assay_trainer.comparison.comparing import ComparisonData
from assay_trainer.comparison.expectations import ExpectationVerdict
from assay_trainer.comparison.metrics import ACCEPTED_AT_MULTI
from assay_trainer.comparison.report.words import (
    amount_text,
    counted,
    failed,
    found_text,
    listed,
    p_text,
    row_change,
    sides,
)
from assay_trainer.comparison.results import ComparedRow, RowVerdict
from assay_trainer.evaluation.metrics.failed_samples import FailedCount, failed_text

_MOST_OTHERS = 8
#: The metrics of the first sentence: the first of them that a set has.
_HEADLINES = ("majority", "solved_in_budget", ACCEPTED_AT_MULTI, "pass@1")


def summary_of(data: ComparisonData) -> str:
    """Return the summary as paragraphs."""
    paragraphs = [_different(data)] if data.different else []
    for arm in data.arms:
        paragraphs.append(" ".join(_of_arm(data, arm)))
    paragraphs.append(" ".join([*data.notes, *_left_out(data)]))
    return "\n\n".join(one for one in paragraphs if one) + "\n"


def headlines(data: ComparisonData, arm: str) -> list[ComparedRow]:
    """Return the main row of each whole set: pass@1, or what its protocol is about."""
    own = [row for row in data.rows if row.arm == arm and row.stratum is None]
    found = []
    for name in dict.fromkeys(row.set for row in own):
        rows = {row.metric: row for row in own if row.set == name}
        main = next((rows[metric] for metric in _HEADLINES if metric in rows), None)
        found += [main or next(iter(rows.values()))]
    return found


def _different(data: ComparisonData) -> str:
    return (
        "CAUTION: the evaluations were not measured the same way, so a difference may come from "
        f"the measurement: {'; '.join(data.different)}."
    )


def verdict_sentence(data: ComparisonData, arm: str) -> str:
    """Return the sentence of an arm's verdicts on its sets."""
    rows = headlines(data, arm)
    parts = []
    words = {
        RowVerdict.BETTER: "better than {} on",
        RowVerdict.WORSE: "worse than {} on",
        RowVerdict.SAME: "the same as {} on",
    }
    for verdict, text in words.items():
        names = [row.set for row in rows if row.verdict is verdict]
        if names:
            parts.append(f"{text.format(data.baseline)} {listed(names)}")
    open_ = [row.set for row in rows if row.verdict is RowVerdict.INCONCLUSIVE]
    kinds = listed(dict.fromkeys(row.title for row in rows))
    if all(row.verdict is RowVerdict.UNTESTED for row in rows):
        return f"NOT TESTED: {kinds} of {arm} and {data.baseline}."
    if not parts:
        where = f" on {listed(open_)}" if open_ else ""
        return f"INCONCLUSIVE: by {kinds}, {arm} cannot be told from {data.baseline}{where}."
    rest = f" {listed(open_)}: inconclusive." if open_ else ""
    verdicts = [str(v) for v in words if any(row.verdict is v for row in rows)]
    return f"{listed(verdicts)}: by {kinds}, {arm} is {'; '.join(parts)}.{rest}"


def _of_arm(data: ComparisonData, arm: str) -> Iterator[str]:
    yield verdict_sentence(data, arm)
    main = headlines(data, arm)
    for row in main:
        yield _sentence(row, data)
    others = [
        row
        for row in data.rows
        if row.arm == arm
        and row.stratum is None
        and row not in main
        and row.verdict in (RowVerdict.BETTER, RowVerdict.WORSE)
    ]
    if others:
        shown = [f"{row.title} on {row.place} {row_change(row)}" for row in others[:_MOST_OTHERS]]
        more = f" and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
        yield f"Other changes that hold after the correction: {'; '.join(shown)}{more}."
    yield from _expected(data, arm)
    yield from troubles(data, arm)


def troubles(data: ComparisonData, arm: str) -> Iterator[str]:
    """Yield a sentence on each rule that holds for an arm, with the sets."""
    held = [one for one in data.rules if one.arm == arm and one.state is RuleState.HOLDS]
    for name in dict.fromkeys(one.name for one in held):
        own = [one for one in held if one.name == name]
        yield (
            f"Sign of trouble in {arm}: {name} ({listed(one.set for one in own)}). "
            f"Usual cause: {own[0].cause}. Remedy: {own[0].remedy}."
        )


def failures(data: ComparisonData, arm: str) -> Iterator[str]:
    """Yield a sentence on the failed samples behind each main row, and each verdict they open."""
    main = headlines(data, arm)
    for row in (row for row in data.rows if row.arm == arm and row.failed is not None):
        is_open = row.failed is not None and row.failed.verdict_without is not row.verdict
        if is_open or row in main:
            yield f"{row.place}, {row.title}: {failed(row, data.baseline)}."


def _sentence(row: ComparedRow, data: ComparisonData) -> str:
    before, after = sides(row)
    if row.verdict is RowVerdict.NEW:
        return f"{row.set} is new: {row.title} {after}, over {counted(row.num_tasks, 'task')}."
    if row.verdict is RowVerdict.MISSING:
        return f"{row.set} has no new number; the baseline's {row.title} is {before}."
    if row.headline is None:
        return f"{row.set}: {row.title} {before} and {after}, without a comparison."
    told, detectable = failed(row, data.baseline), ""
    told = f"; {told}" if told else ""
    if row.verdict is RowVerdict.INCONCLUSIVE and row.detectable is not None:
        detectable = f"; only {amount_text(row, row.detectable)} or more would usually be found"
    return (
        f"{row.set}: {row.title} {before} -> {after}, {row_change(row)}, "
        f"{row.verdict} over {counted(row.num_tasks, 'task')} (p {p_text(row.p_corrected)}, "
        f"corrected for {counted(data.num_tests, 'test')}{detectable}){told}."
    )


def _expected(data: ComparisonData, arm: str) -> Iterator[str]:
    own = [one for one in data.expectations if one.arm == arm]
    if not own:
        return
    numbers = {v: sum(one.verdict is v for one in own) for v in ExpectationVerdict}
    yield (
        f"Of {counted(len(own), 'expectation')}, {numbers[ExpectationVerdict.MET]} met, "
        f"{numbers[ExpectationVerdict.NOT_MET]} not met, "
        f"{numbers[ExpectationVerdict.UNDECIDABLE]} undecidable."
    )
    for one in own:
        if one.verdict is not ExpectationVerdict.MET:
            yield f"{one.verdict}: {one.key} {one.expected}; found: {found_text(one)}."


def _left_out(data: ComparisonData) -> Iterator[str]:
    """Yield sentences on samples without a score and tasks that were not compared."""
    for arm, evaluations in data.evaluations.items():
        sets = [one for evaluation in evaluations for one in evaluation.sets.values()]
        count = FailedCount(
            name=arm,
            num_failed=sum(one.num_failed for one in sets),
            num_samples=sum(one.num_samples for one in sets),
        )
        if count.num_failed:
            yield f"{failed_text([count])}: they are in no number."
    for arm in data.arms:
        for row in headlines(data, arm):
            if row.left_out.total and row.verdict not in (RowVerdict.NEW, RowVerdict.MISSING):
                names = {
                    "only_in_baseline": f"only in {data.baseline}",
                    "only_in_arm": f"only in {arm}",
                    "without_score": "without a score on a side",
                    "too_few_samples": "with too few samples",
                }
                counts = [
                    f"{number} {names[key]}"
                    for key, number in row.left_out.model_dump().items()
                    if number
                ]
                yield f"{arm}: tasks of {row.set} left out: {', '.join(counts)}."
