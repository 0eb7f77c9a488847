"""A whole calibration: reads the files, asks the judges, shows progress, writes the report."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from assay_judge.calibration.calibrate import Trial, calibrate, make_candidates
from assay_judge.calibration.examples import read_examples
from assay_judge.calibration.report import (
    LOG,
    REPORT,
    SUMMARY,
    create_folder,
    summary_rows,
    write_report,
)
from assay_judge.config import JudgeConfig
from assay_shared.settings.run_file import load_config


def run_calibration(
    file: Path, output: Path, config: Path | None, num_repeats: int, with_probes: bool
) -> None:
    """Measure the judges of `config` on the examples of `file`; write the report to `output`.

    Raises:
        AssayError: a file is unusable, `output` exists, or a judge could not be asked at all.
    """
    examples = read_examples(file)
    candidates = make_candidates(
        JudgeConfig() if config is None else load_config(JudgeConfig, config)
    )
    create_folder(output)
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:

        def watch(what: str, num: int) -> Callable[[], None]:
            task = progress.add_task(what, total=num)
            return lambda: progress.advance(task)

        trial = Trial(num_repeats, with_probes, output / LOG, watch)
        calibration = asyncio.run(calibrate(candidates, examples, trial))
    write_report(output, calibration)
    # A column for each judge: three of them fit into 80 characters.
    heading, *rows = zip(SUMMARY, *summary_rows(calibration), strict=True)
    table = Table(*heading, title=f"{calibration.num_examples} examples", title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"report: {output / REPORT}", highlight=False, soft_wrap=True)
