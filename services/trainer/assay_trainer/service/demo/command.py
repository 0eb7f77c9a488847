"""The demo as a command."""

from pathlib import Path

import typer

_OVERRIDES = typer.Argument(None, metavar="[KEY=VALUE]...", help="Overrides, as section.key=value.")
_OWN_FILE = Path(__file__).parents[1] / "demo.yaml"


def demo(
    overrides: list[str] | None = _OVERRIDES,
    home: Path | None = typer.Option(None, help="Folder for all of it; default: runs/demo-TIME."),
    config: Path | None = typer.Option(None, help="Another run file than the demo's own."),
    workers: int = typer.Option(2, min=1, help="Rollout workers."),
    stay: bool | None = typer.Option(
        None, help="Keep the page and its chat after the run, until Ctrl-C; default: in a terminal."
    ),
    open_page: bool | None = typer.Option(
        None, "--open/--no-open", help="Open the page in a browser; default: on a desktop."
    ),
) -> None:
    """Run the whole loop on this machine: services, SFT, GRPO, evaluation, report."""
    from rich.console import Console

    from assay_shared.telemetry.logs import set_up_logging
    from assay_trainer.curriculum.winner import load_run
    from assay_trainer.service.demo.desktop import has_desktop, is_watched
    from assay_trainer.service.demo.running import DemoOptions, run_demo
    from assay_trainer.service.record import create_stamped

    set_up_logging("demo", "WARNING")
    run_config = load_run(config or _OWN_FILE, tuple(overrides or ()))
    options = DemoOptions(
        num_workers=workers,
        stays=is_watched() if stay is None else stay,
        opens=is_watched() and has_desktop() if open_page is None else open_page,
    )
    run_demo(run_config, home or create_stamped(Path("runs"), "demo"), options, Console())
