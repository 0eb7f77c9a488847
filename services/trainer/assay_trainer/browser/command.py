"""Look into runs: show, samples, browse, why, diagnose, export.

Each command imports its needs when it runs, so --help imports nothing heavy.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from assay_trainer.browser.filter_options import takes_filters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from assay_trainer.browser.opening import OpenedRun
    from assay_trainer.browser.reading.filters import SampleFilter

_RUN = typer.Argument(metavar="RUN", help="The run's folder, or its name in ASSAY_RUNS.")
_JSON = typer.Option(False, "--json", help="Print JSON for programs.")


def show(
    runs: list[str] = typer.Argument(
        metavar="RUN...", help="The run's folder, or its name in ASSAY_RUNS; two to five compare."
    ),
    as_json: bool = _JSON,
) -> None:
    """Show a run: state, results, samples and waits. Of two to five, compare them."""
    if len(runs) > 1:
        _show_compared(runs, as_json)
        return
    from assay_trainer.browser.texts.run_text import run_json, run_lines

    found = _opened(runs[0]).summary()
    if as_json:
        _print_json(run_json(found))
    else:
        _print_lines(run_lines(found))


def _show_compared(runs: list[str], as_json: bool) -> None:
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.browser.facts.differing import check_number_of_runs
    from assay_trainer.browser.opening import find_run, open_for_reading
    from assay_trainer.browser.texts.compared_text import (
        compare_runs,
        compared_json,
        compared_lines,
    )

    home = read_settings(ServiceSettings).runs
    folders = [find_run(run, home) for run in runs]
    check_number_of_runs([str(one.path.resolve()) for one in folders])
    found = compare_runs([open_for_reading(one) for one in folders])
    if as_json:
        _print_json(compared_json(found))
    else:
        _print_lines(compared_lines(found))


@takes_filters
def samples(
    run: str = _RUN,
    *,
    given: "SampleFilter",
    limit: int = typer.Option(20, min=1, help="Samples shown; at most 10,000."),
    full: bool = typer.Option(False, help="Show each sample whole."),
    as_json: bool = _JSON,
) -> None:
    """Show stored samples of a run, with rewards, failures and reasons."""
    from rich.console import Console

    from assay_trainer.browser.samples.detail import sample_json
    from assay_trainer.browser.texts.sample_text import sample_lines, samples_table

    opened = _opened(run)
    found = opened.samples(given, limit)
    number = opened.index.count(given)
    _tell_problems(opened)
    if as_json:
        _print_json({"matching": number, "samples": [sample_json(one) for one in found]})
        return
    console = Console(highlight=False)
    if full:
        for one in found:
            for line in sample_lines(one):
                console.print(line)
    elif found:
        console.print(samples_table(found))
    console.print(f"{len(found)} of {number:,} matching samples")


def browse(
    run: str = _RUN,
    output: Path | None = typer.Option(None, help="The file; NAME.html without it."),
    max_mib: int = typer.Option(25, min=3, max=30, help="The file's size at most, in MiB."),
) -> None:
    """Write a run as one HTML file that opens without a network: mail it, attach it."""
    from assay_shared.errors import InvalidInput
    from assay_shared.runs.run_folder import write_atomically
    from assay_trainer.browser.pages.file_page import file_page

    if output is not None and output.is_dir():
        raise InvalidInput(f"{output} is a folder", field="--output", hint="name a file in it")
    opened = _opened(run)
    path = output or Path(f"{opened.name}.html")
    opened.events.update()
    page = file_page(opened, max_mib * 2**20)
    write_atomically(path, page.html)
    total = opened.index.state().num_samples
    size = path.stat().st_size / 2**20
    print(f"{path}: {page.num_samples:,} of {total:,} samples, {size:.1f} MiB")


def why(run: str = _RUN, as_json: bool = _JSON) -> None:
    """Show the waits of a run, live or finished: since when, and what to change."""
    import time
    from dataclasses import asdict

    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_shared.text.markdown import visible
    from assay_trainer.browser.waits.why import why as waits_of

    now = time.time()
    opened = _opened(run)
    found = waits_of(opened, read_settings(ServiceSettings), now)
    _tell_problems(opened)
    if as_json:
        _print_json([asdict(one) for one in found])
        return
    for one in found:
        print(visible(one.told(now)))


def diagnose(run: str = _RUN, as_json: bool = _JSON) -> None:
    """Show faults of a run by its numbers, a sentence each, with the setting to change."""
    from dataclasses import asdict

    from assay_shared.text.markdown import visible
    from assay_trainer.browser.diagnosis.diagnose import RULES

    opened = _opened(run)
    summary = opened.summary()
    _tell_problems(opened)
    if as_json:
        _print_json({"findings": [asdict(one) for one in summary.findings]})
        return
    for one in summary.findings:
        page = f" (docs/runbook.md, {one.alert})" if one.alert else ""
        print(visible(f"{one.rule}: {one.told}{page}"))
    for note in summary.notes:
        print(visible(f"note: {note}"))
    if not summary.findings:
        print(_without_findings(opened, len(RULES)))


def _without_findings(opened: "OpenedRun", num_rules: int) -> str:
    """Return what a run without a finding tells, by the steps that are recorded."""
    seen, config = opened.events, opened.config
    recorded = len(seen.steps)
    others = len(seen.sft) + len(seen.dpo)
    if not recorded and not others:
        return "nothing can be said: no step is recorded"
    told = f"{recorded} steps of GRPO" if recorded else f"{others} steps, none of GRPO"
    if config is not None and config.grpo is not None and not seen.ended_early:
        last, wanted = max(seen.steps, default=0), config.grpo.steps
        if last < wanted or recorded + seen.num_dropped_steps < last:
            return (
                f"little can be said: {recorded} of {wanted} steps of GRPO are recorded; "
                f"{num_rules} rules find no fault in them"
            )
    return f"nothing: {num_rules} rules find no fault ({told})"


def _tell_problems(opened: "OpenedRun") -> None:
    """Name the damaged lines, which no number counts."""
    from assay_shared.text.markdown import visible

    for problem in opened.index.problems():
        print(visible(problem.told), file=sys.stderr)


@takes_filters
def export(
    run: str = _RUN,
    file: Path = typer.Argument(help="The file to write: *.parquet, *.csv, or Inspect's *.eval."),
    *,
    given: "SampleFilter",
) -> None:
    """Write a run's samples to a file: for tables, or for the viewer of Inspect."""
    from assay_shared.text.markdown import visible
    from assay_trainer.browser.exports.exporting import check_output, export_samples

    check_output(file)
    opened = _opened(run)

    def tell(problem: str) -> None:
        print(f"left out: {visible(problem[:300])}", file=sys.stderr)

    for problem in opened.index.problems():
        tell(problem.told)
    number = export_samples(opened, given, file, tell)
    print(f"{file}: {number:,} samples, {file.stat().st_size / 2**20:.1f} MiB")


def _opened(run: str) -> "OpenedRun":
    """Return the run with all of its lines indexed; tell of it if that takes long."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.browser.opening import find_run, open_for_reading

    opened = open_for_reading(find_run(run, read_settings(ServiceSettings).runs))

    def tell(state: Any) -> None:
        if state.bytes_left > 2**20:
            print(f"reading: {state.num_samples:,} samples so far", file=sys.stderr)

    opened.index.complete(tell)
    return opened


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value, indent=2, default=str))


def _print_lines(lines: "Iterable[RenderableType]") -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for line in lines:
        console.print(line)
