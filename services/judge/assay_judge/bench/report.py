"""The report of a bench: report.md, summary.json and figures."""

from collections.abc import Iterator
from pathlib import Path

from assay_judge.bench import figures
from assay_judge.bench.names import Reason
from assay_judge.bench.record import Arm, Bench, Measures
from assay_judge.bench.sets import STYLES
from assay_judge.calibration.estimates import number, percent
from assay_shared.runs.run_folder import write_atomically
from assay_shared.text.markdown import table

RECORD, REPORT = "summary.json", "report.md"
SUMMARY = (
    "reason",
    "accuracy",
    "pairs won",
    "changed by the order",
    "first minus second",
    "kappa of the orders",
    "failed",
)
_OUTCOMES = (
    *("pairs", "right twice", "wrong twice", "first twice", "second twice", "tie", "failed"),
    *("ties of verdicts", "kappa with the gold labels"),
)
_COST = (
    *("reason", "pairs", "requests", "tokens read", "tokens written", "tokens a pair"),
    *("money", "failed pairs", "decided by", "prompt"),
)
_TITLES = {Reason.AFTER: "Reason after the verdict", Reason.BEFORE: "Reason before the verdict"}


def write_report(folder: Path, bench: Bench) -> None:
    """Write the report, the summary and the figures, replacing earlier files."""
    pictures = figures.draw(bench, folder / "figures")
    write_atomically(folder / REPORT, "\n".join(_lines(bench, pictures)) + "\n")
    write_atomically(folder / RECORD, bench.model_dump_json(indent=2) + "\n")


def summary_rows(bench: Bench) -> list[list[str]]:
    """Return a row of measures for each prompt, over all pairs."""
    return [[str(reason), *_main_cells(arm.overall)] for reason, arm in bench.arms.items()]


def _main_cells(one: Measures) -> list[str]:
    return [
        percent(one.accuracy),
        percent(one.pair_accuracy),
        percent(one.flips),
        number(one.position),
        number(one.kappa_orders),
        percent(one.failed),
    ]


def _lines(bench: Bench, pictures: dict[str, str]) -> Iterator[str]:
    judges = ", ".join(f"{name} ({model})" for name, model in bench.chain.items())
    yield f"# {judges} on {bench.set.shown}"
    yield ""
    yield from _how(bench)
    yield from table(SUMMARY, summary_rows(bench))
    if bench.differences:
        yield "## Reason before the verdict, against after it"
        yield ""
        yield from table(
            ("pairs", "accuracy before minus after"),
            [[name, number(one)] for name, one in bench.differences.items()],
        )
    for title, name in pictures.items():
        yield from (f"## {title}", "", f"![{title}](figures/{name})", "")
    for reason, arm in bench.arms.items():
        yield from _arm_lines(_TITLES[reason], arm)
    yield from _cost_lines(bench)


def _how(bench: Bench) -> Iterator[str]:
    sample = "all of them" if bench.limit is None else f"at most {bench.limit}, seed {bench.seed}"
    yield (
        f"{bench.num_pairs} pairs from {bench.num_rows} rows ({sample}) of data with SHA-256 "
        f"{bench.digest[:12]}, {bench.created:%Y-%m-%d %H:%M} UTC. Each pair is judged with either "
        "answer first. Brackets are 95% intervals; pairs of one row count as one cluster."
    )
    yield ""
    yield (
        "*Accuracy*: single verdicts that name the better answer; a tie does not, and a judge that "
        "always takes the first place has 50%. *Pairs won*: right in both orders, or right in one "
        "and a tie in the other. *First minus second*: the share of pairs whose first place was "
        "chosen in both orders, minus that of the second; 0 means no bias. Failures are neither "
        "right nor wrong: they are left out, and counted."
    )
    yield ""
    if bench.num_identical:
        yield f"Left out: {bench.num_identical} pairs of two identical answers."
        yield ""
    if bench.num_unasked:
        yield f"**Not complete**: {bench.num_unasked} judgements were not asked."
        yield ""


def _arm_lines(title: str, arm: Arm) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    groups = {"all": arm.overall} | arm.subsets | arm.difficulties
    yield from table(
        ("pairs", "number", *SUMMARY[1:]),
        [[name, str(one.num_pairs), *_main_cells(one)] for name, one in groups.items()],
    )
    yield from table(
        _OUTCOMES,
        [
            [
                name,
                *map(str, one.outcomes.model_dump().values()),
                percent(one.ties),
                number(one.kappa_gold),
            ]
            for name, one in groups.items()
        ],
    )
    yield from table(
        ("as published", "accuracy"), [[name, percent(one)] for name, one in arm.published.items()]
    )
    if arm.styles:
        yield from table(
            ("better answer", *(f"worse is {style}" for style in STYLES)),
            [[style, *map(percent, row)] for style, row in zip(STYLES, arm.styles, strict=True)],
        )
    if arm.failures:
        yield from table(
            ("failures", "why"), [[str(num), why] for why, num in arm.failures.items()]
        )


def _cost_lines(bench: Bench) -> Iterator[str]:
    yield "## Cost"
    yield ""
    yield "All requests, including failed ones and those of earlier starts."
    yield ""
    rows = []
    for reason, arm in bench.arms.items():
        one = arm.cost
        tokens = one.prompt_tokens + one.completion_tokens
        rows.append(
            [
                str(reason),
                str(one.num_pairs),
                str(one.num_requests),
                str(one.prompt_tokens),
                str(one.completion_tokens),
                f"{tokens / max(1, one.num_pairs):.0f}",
                f"{one.money:.6f}",
                str(arm.overall.outcomes.failed),
                ", ".join(f"{judge}: {num}" for judge, num in arm.judges.items()),
                ", ".join(arm.templates),
            ]
        )
    yield from table(
        _COST,
        rows,
    )
