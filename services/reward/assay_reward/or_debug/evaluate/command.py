"""The command `assay or-debug evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from assay_reward.or_debug.evaluate.summary import EvaluationSummary
    from assay_shared.types import Role


PolicyName = Annotated[
    str,
    typer.Option(
        help="A baseline's name, the inference service's address, or the address of an "
        "OpenAI-compatible server, which ends with /v1."
    ),
]
MaxTasks = Annotated[int | None, typer.Option(min=1, help="Tasks of each cell; all if not set.")]
MaxReplies = Annotated[
    int | None,
    typer.Option(min=1, max=64, help="Replies per episode; by default the task's own number."),
]
ServedModel = Annotated[
    str | None, typer.Option(help="The model of an OpenAI-compatible server that has several.")
]
RequestTimeout = Annotated[
    float,
    typer.Option(min=1, max=3600, help="Seconds for each request to an OpenAI-compatible server."),
]
KeyName = Annotated[str, typer.Option(help="Environment variable with the server's key.")]


def evaluate(
    data: Annotated[Path, typer.Argument(help="A benchmark, or one tasks.jsonl of it.")],
    policy: PolicyName,
    output: Annotated[Path, typer.Option(help="Folder for the report, figures and episodes.")],
    role: str = typer.Option("test", help="Which tasks: train, validation, test, or all."),
    max_samples: MaxTasks = None,
    max_turns: MaxReplies = None,
    samples: int = typer.Option(1, min=1, help="Episodes of each task."),
    temperature: float = typer.Option(0.0, min=0.0, help="0 is greedy."),
    max_tokens: int = typer.Option(1024, min=1, help="Tokens in one reply."),
    concurrency: int = typer.Option(8, min=1, help="Episodes played at once."),
    processes: int = typer.Option(1, min=1, help="Solver processes."),
    baselines: bool = typer.Option(True, help="Play the built-in baselines too."),
    seed: int = typer.Option(0, help="Seed of sampling and of random baselines."),
    model: ServedModel = None,
    key_variable: KeyName = "OPENAI_API_KEY",
    request_timeout: RequestTimeout = 300.0,
) -> None:
    """Let a policy repair models, and compare its recovery with trivial baselines.

    Exit code 1: some episodes have no result.
    """
    from rich.console import Console

    from assay_reward.or_debug.evaluate.evaluation import EvaluationPlan
    from assay_reward.or_debug.evaluate.run import EvaluationRun, run
    from assay_shared.types import SamplingParams

    sampling = SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed)
    asked = EvaluationRun(
        data=data,
        policy=policy,
        output=output,
        role=_role(role),
        max_per_cell=max_samples,
        baselines=baselines,
        seed=seed,
        processes=processes,
        model=model,
        key_variable=key_variable,
        request_timeout=request_timeout,
        sampling=sampling,
        plan=EvaluationPlan(samples, concurrency, max_turns),
    )
    evaluation = run(asked, console := Console())
    _show(evaluation, output, console)
    if evaluation.num_failed:
        raise typer.Exit(1)


def _show(evaluation: "EvaluationSummary", output: Path, console: "Console") -> None:
    from rich.table import Table

    from assay_reward.or_debug.evaluate.report import headline_rows

    table = Table("cell", "episodes", "failed", "RR@5", "best trivial", "faithful", "best trivial")
    for row in headline_rows(evaluation):
        table.add_row(*row)
    console.print(table)
    for check in evaluation.gradient:
        bounds = f"RR@5 of {check.low:.0%} to {check.high:.0%}: " if check.found else ""
        console.print(f"{check.difficulty}: {bounds}{check.told}")
    console.print(f"the whole report: {output / 'report.md'}")


def _role(name: str) -> "Role | None":
    from assay_shared.errors import ConfigError
    from assay_shared.types import Role

    if name == "all":
        return None
    if name not in list(Role):
        raise ConfigError(f"no role is called {name!r}", field="role", hint="train, test, all, ...")
    return Role(name)
