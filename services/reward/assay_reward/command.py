"""Commands of the reward service: serve and rubrics."""

from pathlib import Path

import typer

from assay_shared.service.cli_options import FdOption, HostOption, port_option

app = typer.Typer(help="Turn answers into rewards.", no_args_is_help=True, add_completion=False)


@app.command()
def serve(
    host: HostOption = "127.0.0.1", port: int = port_option(8004), fd: FdOption = None
) -> None:
    """Serve rewards over HTTP until stopped."""
    from assay_reward.app import create_app
    from assay_reward.settings import RewardSettings
    from assay_shared.service.server import Address, run_service

    run_service("reward", RewardSettings, create_app, Address(host, port, fd))


@app.command()
def rubrics(
    folder: Path | None = typer.Option(
        None, help="Folder with more rubrics to check and show, or one file."
    ),
) -> None:
    """Check the rubrics and show the effective share of each component."""
    from assay_reward.rubric import Rubrics
    from assay_reward.settings import RewardSettings
    from assay_shared.settings.environment import read_settings

    for rubric in Rubrics(folder, read_settings(RewardSettings).allowed).all():
        info = rubric.info()
        shares = ", ".join(f"{name} {share:.0%}" for name, share in info.shares.items())
        reward = f"{info.lowest:g} to {info.highest:g}"
        print(f"{info.scorer}\n    {info.description}\n    {reward}; {shares}")
