"""A whole bench run: reads a set, asks the chain, shows progress and writes the report."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from assay_judge.bench import measures
from assay_judge.bench.ask import (
    BenchAsking,
    BenchLedger,
    bench_config,
    make_asked_chain,
    template_of,
)
from assay_judge.bench.names import Reason, SetName
from assay_judge.bench.record import Arm, Bench
from assay_judge.bench.report import REPORT, SUMMARY, summary_rows, write_report
from assay_judge.bench.results import BenchResults, Result
from assay_judge.bench.sets import LabelledPair, PairSet, read_set
from assay_judge.config import JudgeConfig
from assay_judge.forms.templates import Templates
from assay_shared.errors import ConfigError, Conflict, JudgeFault
from assay_shared.runs.run_folder import write_atomically
from assay_shared.settings.run_file import load_config
from assay_shared.types import JudgeForm

RESULTS, IDENTITY = "results.jsonl", "bench.json"
_NUM_FAILURES_SHOWN = 5
#: Settings that may change before a bench is resumed: they do not change the requests' content.
_MAY_CHANGE: dict[str, Any] = {
    "ceiling": True,
    "deadline_s": True,
    "chain": {
        "__all__": {
            *("limits", "timeout_s", "attempts", "open_after", "cooldown_s", "requirement"),
            *("api_key_env", "api_key_file"),
        }
    },
}


@dataclass(frozen=True)
class BenchPlan:
    """The plan of a bench. Without `limit`, all rows; without `subsets`, all subsets."""

    name: SetName
    data: Path
    output: Path
    config: Path | None
    reasons: tuple[Reason, ...] = tuple(Reason)
    subsets: tuple[str, ...] = ()
    limit: int | None = None
    seed: int = 1
    concurrency: int = 16
    ceiling: float | None = None


class Identity(BaseModel):
    """The contents of bench.json: the set, chain and prompts of a folder's results.

    Results of another identity cannot be added to the folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    set: SetName
    digest: str
    chain: dict[str, Any]
    prompts: dict[str, str]


def run_bench(plan: BenchPlan) -> Bench:
    """Ask about every pair of the plan without a verdict in `output`; write and return the report.

    Raises:
        AssayError: a file cannot be used, `output` has results of another chain or set, or no
            pair that was asked got a verdict.
    """
    found = read_set(plan.name, plan.data)
    pairs = found.select(plan.subsets, plan.limit, plan.seed)
    loaded = JudgeConfig() if plan.config is None else load_config(JudgeConfig, plan.config)
    config = bench_config(loaded)
    _claim(plan.output, _identity(found, config))
    results = BenchResults(plan.output / RESULTS)
    ceiling = loaded.ceiling if plan.ceiling is None else plan.ceiling
    ledger = BenchLedger(ceiling, results.money)
    work = [
        (pair, reason)
        for pair in pairs
        for reason in plan.reasons
        if not results.is_judged(pair, reason)
    ]
    console = Console()
    with _progress(console) as progress:
        num_known = len(pairs) * len(plan.reasons) - len(work)
        total = len(pairs) * len(plan.reasons)
        task = progress.add_task(f"{plan.name}: pairs", total=total, completed=num_known)
        chain = make_asked_chain(config, ledger, plan.concurrency)
        asking = BenchAsking(chain, ledger, results, lambda: progress.advance(task))
        asyncio.run(asking.ask_all(work, plan.concurrency))
    bench = summarise(plan, config, found, pairs, results)
    write_report(plan.output, bench)
    _show(console, plan, bench)
    _check_verdicts(bench)
    return bench


def _check_verdicts(bench: Bench) -> None:
    """Raise JudgeFault if pairs were asked and none got a verdict."""
    measured = [one.overall.outcomes.failed for one in bench.arms.values()]
    asked = sum(one.overall.num_pairs for one in bench.arms.values())
    if not asked or sum(measured) < asked:
        return
    (message, *_), *_ = (one.failures for one in bench.arms.values() if one.failures)
    raise JudgeFault(f"no pair got a verdict; the most frequent failure: {message}")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _identity(found: PairSet, config: JudgeConfig) -> Identity:
    templates = Templates(config.templates)
    prompts = {one: templates.find(JudgeForm.PAIRWISE, template_of(one)).digest for one in Reason}
    chain = config.model_dump(mode="json", exclude=_MAY_CHANGE)
    return Identity(set=found.name, digest=found.digest, chain=chain, prompts=prompts)


def _claim(folder: Path, identity: Identity) -> None:
    """Create the folder, or raise Conflict if it has another set, chain or other prompts."""
    path = folder / IDENTITY
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise Conflict(f"{folder} exists", hint="choose another folder with --output")
        write_atomically(path, identity.model_dump_json(indent=2) + "\n")
        return
    try:
        there = Identity.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise ConfigError(f"{path} is not of a bench: {error.errors()[0]['msg']}") from None
    for name in Identity.model_fields:
        if getattr(there, name) != getattr(identity, name):
            raise Conflict(
                f"{folder} has results of another {name}",
                hint="choose another folder with --output",
            )


def summarise(
    plan: BenchPlan,
    config: JudgeConfig,
    found: PairSet,
    pairs: Sequence[LabelledPair],
    results: BenchResults,
) -> Bench:
    """Return the measurements over all asked pairs of the plan."""
    of = {reason: results.of(pairs, reason) for reason in plan.reasons}
    asked = {reason: results.asked(pairs, reason) for reason in plan.reasons}
    return Bench(
        created=datetime.now(UTC),
        set=found.name,
        digest=found.digest,
        num_identical=found.num_identical,
        chain={one.name: getattr(one, "model", "") for one in config.chain},
        seed=plan.seed,
        limit=plan.limit,
        num_pairs=len(pairs),
        num_rows=len({pair.row for pair in pairs}),
        num_unasked=sum(len(pairs) - len(some) for some in of.values()),
        arms={one: _arm(plan.name, of[one], asked[one]) for one in plan.reasons},
        differences=_differences(of),
    )


def _arm(name: SetName, results: Sequence[Result], asked: Sequence[Result]) -> Arm:
    subsets = measures.by(results, lambda one: one.subset)
    levels = measures.by_difficulty(results)
    failures = Counter(one.failure.message for one in results if one.failure is not None)
    return Arm(
        overall=measures.measure(results),
        subsets={name: measures.measure(some) for name, some in subsets.items()},
        difficulties={name: measures.measure(some) for name, some in levels.items()},
        styles=measures.style_matrix(results),
        published=measures.published(name, results),
        cost=measures.cost(asked),
        judges=dict(Counter(one.judge for one in results if one.judge).most_common()),
        failures=dict(failures.most_common(_NUM_FAILURES_SHOWN)),
        templates=tuple(sorted({one.template for one in results if one.template})),
    )


def _differences(of: dict[Reason, list[Result]]) -> dict[str, Any]:
    if len(of) < len(Reason):
        return {}
    before, after = of[Reason.BEFORE], of[Reason.AFTER]
    groups = measures.by(before, lambda one: one.subset) | measures.by_difficulty(before)
    return {
        name: measures.difference(some, after) for name, some in ({"all": before} | groups).items()
    }


def _show(console: Console, plan: BenchPlan, bench: Bench) -> None:
    heading, *rows = zip(SUMMARY, *summary_rows(bench), strict=True)
    table = Table(
        *heading, title=f"{bench.num_pairs} pairs of {bench.set.shown}", title_justify="left"
    )
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if bench.num_unasked:
        console.print(
            f"the ceiling left {bench.num_unasked} judgements unasked: raise it and repeat the "
            "command to resume"
        )
    console.print(f"report: {plan.output / REPORT}", highlight=False, soft_wrap=True)
