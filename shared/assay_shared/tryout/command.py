"""The command `assay try`."""

import sys
from pathlib import Path

import typer
from rich.console import Console

# Here and not below, so that a missing package gets the command line's own error.
from assay_shared.tryout.page import trial_page


def try_out(
    output: Path = typer.Option(Path("assay-try.html"), help="File for the page."),
    open_page: bool = typer.Option(False, "--open", help="Open the page in a browser."),
    as_json: bool = typer.Option(False, "--json", help="Print all verdicts as JSON."),
    answers: Path | None = typer.Option(
        None, help="Answers of your own: a file like those in assay_shared/tryout/answers."
    ),
) -> None:
    """Score 200 given answers with real services, next to usual practice: no GPU, no torch."""
    import webbrowser

    from assay_shared.errors import ConfigError
    from assay_shared.telemetry.logs import set_up_logging
    from assay_shared.tryout.given import FOLDER, read_groups
    from assay_shared.tryout.trial import run_trial
    from assay_shared.verdicts.compared import totals_of
    from assay_shared.verdicts.json_text import verdict_json
    from assay_shared.verdicts.terminal import LEGEND, summary_lines, verdict_rows

    set_up_logging("try", "WARNING")
    if not output.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {output.absolute().parent}", field="--output")
    groups = read_groups(answers or FOLDER)
    try:
        trial = run_trial(groups, Console(stderr=as_json))
    except KeyboardInterrupt:
        # The services have ended when the trial returns or raises.
        print("stopped: no service is left, and nothing was written", file=sys.stderr)
        raise typer.Exit(130) from None
    output.write_text(trial_page(trial), encoding="utf-8")
    if as_json:
        print(verdict_json(trial.groups))
    else:
        console = Console()
        console.print(verdict_rows(trial.groups))
        console.print(LEGEND + "\n", style="dim", soft_wrap=True)
        for line in summary_lines(totals_of(trial.groups)):
            console.print(line, highlight=False, soft_wrap=True)
        console.print(f"\npage  {output.absolute()}", highlight=False, soft_wrap=True)
    if open_page:
        webbrowser.open(output.absolute().as_uri())
