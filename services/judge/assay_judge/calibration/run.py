"""A whole calibration: reads the files, asks the judges, shows progress, writes the report."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from assay_judge.calibration.calibrate import Trial, calibrate, make_candidates
from assay_judge.calibration.examples import ExampleFile, read_examples
from assay_judge.calibration.log import LOG, REPORT, CalibrationPlan, JudgementLog, claimed, discard
from assay_judge.calibration.report import SUMMARY, summary_rows, write_report
from assay_judge.calibration_record import Calibration
from assay_judge.ceiling import CeilingLedger
from assay_judge.config import JudgeConfig
from assay_shared.errors import BudgetExceeded, JudgeFault
from assay_shared.settings.run_file import load_config
from assay_shared.text.masking import mask

_MAX_FAILURE = 600
_MAX_LINES = 10


def run_calibration(
    file: Path,
    output: Path,
    config: Path | None,
    num_repeats: int,
    with_probes: bool,
    ceiling: float | None = None,
) -> None:
    """Measure the judges of `config` on the examples of `file`; write the report to `output`.

    A folder with judgements but no report is resumed. Without `ceiling`, the chain's own counts.

    Raises:
        AssayError: a file is unusable, `output` has a report or judgements of another plan, the
            ceiling is reached, or a judge with a model gave no verdict at all.
    """
    examples = read_examples(file)
    loaded = JudgeConfig() if config is None else load_config(JudgeConfig, config)
    ledger = CeilingLedger("the calibration", loaded.ceiling if ceiling is None else ceiling)
    candidates = make_candidates(loaded, ledger)
    judges = {one.name: one.plan for one in candidates}
    plan = CalibrationPlan(examples=examples.digest, judges=judges)
    console = Console()
    _warn(console, examples)
    failures = FirstFailures(console, {one.name for one in candidates if one.model})
    with claimed(output, plan) as log, _kept(output, log):
        ledger.earlier = log.money
        with _progress(console) as progress:

            def watch(what: str, num: int) -> Callable[[], None]:
                task = progress.add_task(what, total=num)
                return lambda: progress.advance(task)

            trial = Trial(num_repeats, with_probes, log, ledger, watch, failures.add, loaded.verify)
            calibration = asyncio.run(calibrate(candidates, examples, trial))
        failures.check(calibration, log)
        write_report(output, calibration)
    _show(console, output, calibration)
    silent = [one.judge for one in calibration.judges if one.answered_nothing and one.model]
    if silent:
        raise JudgeFault(failures.of(silent[0], calibration))


class FirstFailures:
    """The first failure of each judge, shown as soon as it happens to one of `models`."""

    def __init__(self, console: Console, models: Collection[str]) -> None:
        self._console = console
        self._models = models
        self._first: dict[str, str] = {}

    def add(self, judge: str, message: str) -> None:
        """Take a failure of a judge; show it if it is the first of a model."""
        if judge in self._first:
            return
        self._first[judge] = _one_line(message)
        if judge not in self._models:
            return
        told = f"first failure of judge {judge!r}: {self._first[judge]}"
        self._console.print(told, markup=False, highlight=False, soft_wrap=True)

    def of(self, judge: str, calibration: Calibration) -> str:
        """Return a text about a judge without a verdict."""
        first = self._first.get(judge, "none is known")
        return (
            f"judge {judge!r} gave no verdict on any of {calibration.num_examples} examples; "
            f"its first failure: {first}"
        )

    def check(self, calibration: Calibration, log: JudgementLog) -> None:
        """Raise JudgeFault if nothing at all was measured."""
        if not log.num_verdicts:
            raise JudgeFault(self.of(calibration.judges[0].judge, calibration))


def _one_line(message: str) -> str:
    """Return a failure without keys and control characters, cut to its beginning."""
    shown = "".join(one if one.isprintable() else " " for one in mask(message))
    return shown if len(shown) <= _MAX_FAILURE else shown[:_MAX_FAILURE] + "..."


@contextmanager
def _kept(folder: Path, log: JudgementLog) -> Iterator[None]:
    """Remove the folder if the block ends early without a verdict, or else say how to resume."""
    try:
        yield
    except BaseException as error:
        if not log.num_verdicts:
            discard(folder)
            if isinstance(error, BudgetExceeded):
                raise BudgetExceeded(error.message, hint="raise the ceiling") from None
            raise
        kept = f"{log.num_verdicts} judgements are kept in {folder / LOG}"
        if isinstance(error, BudgetExceeded):
            hint = f"{kept}; raise the ceiling and repeat the command to resume"
            raise BudgetExceeded(error.message, hint=hint) from None
        told = f"{kept}; repeat the command to resume"
        Console(stderr=True).print(told, markup=False, highlight=False, soft_wrap=True)
        raise


def _warn(console: Console, file: ExampleFile) -> None:
    if file.repeated:
        shown = ", ".join(map(str, file.repeated[:_MAX_LINES]))
        more = ", ..." if len(file.repeated) > _MAX_LINES else ""
        console.print(
            f"warning: {len(file.repeated)} lines repeat the question, reference and answer of an "
            f"earlier line and are left out: {shown}{more}",
            highlight=False,
            soft_wrap=True,
        )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _show(console: Console, output: Path, calibration: Calibration) -> None:
    # A column for each judge: three of them fit into 80 characters.
    heading, *rows = zip(SUMMARY, *summary_rows(calibration), strict=True)
    table = Table(*heading, title=f"{calibration.num_examples} examples", title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    costs = [one.cost for one in calibration.judges]
    console.print(
        f"cost: {sum(one.money for one in costs):.6f} in {sum(one.num_requests for one in costs)} "
        f"requests, {sum(one.tokens for one in costs)} tokens",
        highlight=False,
    )
    console.print(f"report: {output / REPORT}", highlight=False, soft_wrap=True)
