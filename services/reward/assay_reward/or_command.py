"""Debug optimisation models: evaluate."""

import typer

from assay_reward.evaluate_command import evaluate

app = typer.Typer(help="Debug optimisation models.", no_args_is_help=True, add_completion=False)
app.command()(evaluate)


@app.callback()
def or_debug() -> None:
    """Debug optimisation models."""
