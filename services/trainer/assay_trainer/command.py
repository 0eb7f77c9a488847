"""The trainer's commands. Each one imports its needs when it runs, so --help is quick."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from assay_shared.service.cli_options import FdOption, HostOption, port_option

if TYPE_CHECKING:
    from assay_shared.runs.run_folder import RunFolder
    from assay_shared.runs.run_lock import Owner
    from assay_shared.settings.environment import ServiceSettings
    from assay_trainer.config import RunConfig
    from assay_trainer.stop import Stop

app = typer.Typer(
    help="Start, follow and stop runs over HTTP.", no_args_is_help=True, add_completion=False
)

_OVERRIDES = typer.Argument(None, metavar="[KEY=VALUE]...", help="Overrides, as section.key=value.")
_DEMO = Path(__file__).parent / "service" / "demo.yaml"
_PING_TIMEOUT_S = 5.0


@app.callback()
def trainer() -> None:
    """Start, follow and stop runs over HTTP."""


@app.command()
def serve(
    host: HostOption = "127.0.0.1", port: int = port_option(8005), fd: FdOption = None
) -> None:
    """Serve runs and their dashboard over HTTP until stopped."""
    from assay_shared.service.server import Address, run_service
    from assay_trainer.pipelines.api.app import create_served_app
    from assay_trainer.settings import TrainerSettings

    run_service("trainer", TrainerSettings, create_served_app, Address(host, port, fd))


@app.command("run")
def run_there(
    file: Path | None = typer.Argument(None, help="Run file (YAML); the demo's without it."),
    overrides: list[str] | None = _OVERRIDES,
    name: str | None = typer.Option(None, help="The run's name; the file's own without it."),
    patience_s: float = typer.Option(
        300.0, min=0.0, help="How long to wait for a trainer that has ended."
    ),
) -> None:
    """Start a run on the trainer service and follow it. A run of that name is resumed."""
    import asyncio

    from rich.console import Console

    from assay_shared.clients import RetryBudget, TrainerClient
    from assay_shared.clients.trainer import RunRequest
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.curriculum.winner import load_run
    from assay_trainer.service.follow import follow
    from assay_trainer.service.terminal import RunView

    settings = read_settings(ServiceSettings)
    config = load_run(file or _DEMO, tuple(overrides or ()))
    request = RunRequest(name=name or config.name, config=config.model_dump(mode="json"))
    retry = RetryBudget(attempts=100_000, total_s=patience_s, max_wait_s=1.0)
    console = Console()

    async def run() -> None:
        async with TrainerClient.from_settings(settings, retry=retry) as trainer:
            await follow(trainer, request, view.show)

    with RunView(console) as view:
        asyncio.run(run())
    console.print(view.summary())
    assert view.end is not None
    console.print(f"report: {view.end.report}", highlight=False, soft_wrap=True)


@app.command("list")
def list_runs(
    runs: Path | None = typer.Argument(None, help="Folder of runs; ASSAY_RUNS without it."),
) -> None:
    """Show all runs of a folder, newest first: state, step, and the training process."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.service.runs import Runs

    for run in Runs(runs or read_settings(ServiceSettings).runs).list():
        status = run.status
        at = f"{status.stage} {status.step}/{status.num_steps}"
        told = status.owner if status.state == "running" else status.message
        print(f"{run.name:<32} {status.state:<10} {at:<24} {told}"[:400])


@app.command("dead-letters")
def show_dead_letters(
    number: int = typer.Option(20, min=1, max=1000, help="Number of messages, the newest first."),
    clear: bool = typer.Option(False, help="Forget all of them after they are shown."),
) -> None:
    """Show the queue's messages that no worker can use, with the reason."""
    import time

    import redis

    from assay_shared.errors import Unreachable
    from assay_shared.runs import dead_letters
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_shared.text.markdown import visible

    settings = read_settings(ServiceSettings)
    try:
        with redis.Redis.from_url(settings.redis_url, socket_timeout=_PING_TIMEOUT_S) as client:
            for one in dead_letters.read_letters(client, number):
                when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.time))
                print(visible(f"{when} {one.queue}: {one.reason}: {one.detail}"))
                print(visible(f"    {one.num_bytes} bytes: {one.content[:200]}"))
            for reason, count in dead_letters.read_counts(client).items():
                print(f"{reason:<24} {count}")
            if clear:
                print(f"{dead_letters.clear(client)} forgotten")
    except redis.RedisError as error:
        raise Unreachable(f"no Redis: {error}", service="redis") from None


def worker(
    concurrency: int = typer.Option(64, min=1, max=1024, help="Groups played at once."),
    ping: bool = typer.Option(False, "--ping", help="Ask this host's worker for a sign of life."),
) -> None:
    """Play rollouts: take groups off the queue, generate, score, store."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_shared.telemetry.logs import set_up_logging
    from assay_trainer.rollouts.tasks import answers, run_worker

    settings = read_settings(ServiceSettings)
    if ping:
        raise typer.Exit(0 if answers(settings, _PING_TIMEOUT_S) else 1)
    set_up_logging("worker", settings.log_level)
    run_worker(settings, concurrency)


def train(
    file: Path | None = typer.Argument(None, help="Run file (YAML)."),
    overrides: list[str] | None = _OVERRIDES,
    folder: Path | None = typer.Option(None, help="Run folder; RUNS/NAME-TIME without it."),
    resume: Path | None = typer.Option(None, help="Resume the run in this folder."),
    quiet: bool = typer.Option(False, help="Show nothing; events are in the run folder."),
    gpus: str | None = typer.Option(
        None, help="GPUs to train on, such as 0,1, with a process for each; the first without it."
    ),
    plan: bool = typer.Option(
        False, "--plan", help="Show what the run needs and what is wrong with it; train nothing."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the plan as JSON."),
) -> None:
    """Train in this process: SFT, DPO, GRPO, evaluation, report. The services must be up.

    Under torchrun or accelerate launch, the other processes follow the first.
    """
    from assay_shared.errors import InvalidInput
    from assay_shared.runs.run_lock import held
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.new_run import begin_run
    from assay_trainer.service.record import open_run
    from assay_trainer.service.used_settings import record_settings
    from assay_trainer.stop import Stop

    _follow_the_first_rank()
    if (file is None) == (resume is None):
        raise InvalidInput("give either a run file or --resume")
    if (plan and file is None) or (as_json and not plan):
        raise InvalidInput("--plan goes with a run file, and --json with --plan")
    stop = Stop()
    stop.listen()
    settings, numbers = read_settings(ServiceSettings), _numbers(gpus)
    changes = tuple(overrides or ())
    if file is not None and plan:
        return _plan(file, changes, settings, stop, numbers, as_json)
    if file is not None:
        run_folder, config = begin_run(file, changes, folder, settings, numbers)
    else:
        assert resume is not None
        run_folder, config = open_run(resume)
    # Before anything slow is imported, so a second process is refused at once.
    with held(run_folder.path) as owner:
        if run_folder.read_status_or_damage().state == "finished":
            return _leave_finished(run_folder, stop)
        record_settings(run_folder, config)
        if resume is not None:
            _check_resumed(run_folder, config, settings)
        _train(run_folder, config, settings, stop, owner, quiet, numbers)


def _follow_the_first_rank() -> None:
    """Follow the first rank to its end, if this process is another rank."""
    if int(os.environ.get("RANK", "0")) > 0:
        from assay_trainer.learner import follower

        follower.main()


def _leave_finished(run_folder: "RunFolder", stop: "Stop") -> None:
    """Say where the report is, and let the processes of other ranks end."""
    print(f"run {run_folder.path.name} is finished: {run_folder.path}/report.html")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from assay_trainer.learner.ranks import joined

        with joined(stop=stop):
            pass


def _check_resumed(
    run_folder: "RunFolder", config: "RunConfig", settings: "ServiceSettings"
) -> None:
    """Look for a run's files, and ask inference if it reads from the run's folder."""
    from assay_trainer.pipeline.before_start import check_files, check_place

    check_files(config)
    check_place(run_folder.path, settings, "--resume")


def _train(
    run_folder: "RunFolder",
    config: "RunConfig",
    settings: "ServiceSettings",
    stop: "Stop",
    owner: "Owner",
    quiet: bool,
    gpus: list[int],
) -> None:
    from rich.console import Console

    from assay_shared.telemetry.logs import quiet_transformers, set_up_logging
    from assay_shared.telemetry.tracing import end_tracing, set_up_tracing
    from assay_trainer.endings import ending
    from assay_trainer.service.terminal import RunView

    set_up_logging("trainer", settings.log_level if quiet else "ERROR")
    set_up_tracing("trainer", settings)
    console = Console(quiet=quiet)
    try:
        with RunView(console) as view, ending(run_folder, str(owner), view.show):
            from assay_trainer.learner.ranks import joined
            from assay_trainer.pipeline.context import RunContext
            from assay_trainer.pipeline.stages import execute

            quiet_transformers()
            with joined(gpus, stop) as ranks:
                execute(RunContext(run_folder, config, settings, stop, ranks, view.show))
    finally:
        end_tracing()
    console.print(view.summary())
    assert view.end is not None
    console.print(f"report: {view.end.report}", highlight=False, soft_wrap=True)


def _plan(
    file: Path,
    overrides: tuple[str, ...],
    settings: "ServiceSettings",
    stop: "Stop",
    gpus: list[int],
    as_json: bool,
) -> None:
    """Print a run's plan; exit with 1 if training would be refused."""
    from rich.console import Console

    from assay_shared.errors import ConfigError
    from assay_shared.telemetry.logs import quiet_transformers, set_up_logging
    from assay_trainer.curriculum.winner import load_run
    from assay_trainer.learner.ranks import joined
    from assay_trainer.pipeline.context import RunContext
    from assay_trainer.pipeline.plan import Plan, make_plan
    from assay_trainer.pipeline.plan_rules import Finding
    from assay_trainer.pipeline.plan_view import show_plan
    from assay_trainer.service.record import plan_folder

    set_up_logging("trainer", "ERROR")
    quiet_transformers()
    try:
        config = load_run(file, overrides)
    except ConfigError as error:
        found = Plan(run=file.stem, findings=[Finding.of(error)])
    else:
        with joined(gpus, stop) as ranks, plan_folder(settings.runs, config) as folder:
            found = make_plan(RunContext(folder, config, settings, stop, ranks))
    show_plan(found, Console(), as_json=as_json)
    if found.refused:
        raise typer.Exit(1)


def _numbers(gpus: str | None) -> list[int]:
    """Return the numbers in a list such as 0,1; none without a list."""
    from assay_shared.errors import ConfigError

    try:
        numbers = [] if gpus is None else [int(one) for one in gpus.split(",")]
    except ValueError:
        numbers = [-1]
    if len(set(numbers)) < len(numbers) or min(numbers, default=0) < 0:
        raise ConfigError(f"{gpus!r} is not a list of GPUs such as 0,1", field="--gpus")
    return numbers


def score(
    answers: str = typer.Option(
        "canonical",
        help="A JSONL file of answers; a run's folder; or canonical: the dataset's gold answers.",
    ),
    rubric: str | None = typer.Option(
        None, help="A rubric's name, or its YAML file; each task's own without it."
    ),
    dataset: str | None = typer.Option(
        None, help="humaneval, gsm8k, gsm8k:train, a JSONL file or an imported folder."
    ),
    concurrency: int = typer.Option(16, min=1, help="Requests scored at once."),
    output: Path | None = typer.Option(None, help="Write each answer's reward to this file."),
    show: int = typer.Option(20, min=0, help="Answers shown with their rewards."),
    give_up_after_s: float = typer.Option(
        60.0, min=0.0, help="Of a run's answers: how long to retry failures."
    ),
) -> None:
    """Score given answers, or score a run's stored answers again and show the changes.

    A rubric's file is loaded by a reward service that ends with the command; else the running
    service scores.
    """
    from assay_shared.errors import InvalidInput
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.checks.own_reward import reward_service_for
    from assay_trainer.checks.solutions import score_answers

    with reward_service_for(rubric, read_settings(ServiceSettings)) as (name, settings):
        if Path(answers).is_dir():
            if dataset is not None:
                raise InvalidInput("a run knows its tasks", field="--dataset")
            return _score_run(Path(answers), name, settings, output, give_up_after_s)
        board = score_answers(answers, dataset, name, settings, concurrency)
    if output is not None:
        board.write(output)
    for line in board.lines(show):
        print(line)
    for outcome, count in board.outcomes().most_common():
        print(f"{outcome:<24} {count}")
    print(f"accepted {board.num_accepted} of {board.num_answers}")


def _score_run(
    folder: Path,
    rubric: str | None,
    settings: "ServiceSettings",
    output: Path | None,
    give_up_after_s: float,
) -> None:
    """Score a run's stored answers again and show the changes."""
    from assay_shared.runs.run_folder import RunFolder
    from assay_trainer.rescore.comparison import summary
    from assay_trainer.rescore.rescore import rescore_run

    comparison, path = rescore_run(
        RunFolder.open(folder), settings, rubric, output, give_up_after_s
    )
    for name, text in summary(comparison):
        print(f"{name:<18} {text}")
    print(f"{'comparison':<18} {path}")


def tasks(
    num: int = typer.Option(5, min=1, help="Number of tasks."),
    seed: int = typer.Option(0, help="Seed: the same seed prints the same tasks."),
    held_out: bool = typer.Option(False, help="From the held-out set instead of training."),
    output: Path | None = typer.Option(None, help="Write them to this file; print them without."),
) -> None:
    """Print generated tasks as JSON lines, the form of JSONL datasets."""
    from assay_shared.runs.run_folder import write_atomically
    from assay_trainer.config import GeneratedSource
    from assay_trainer.data.dataset import DatasetPurpose, open_dataset

    source = GeneratedSource(kind="generated", num_tasks=num, seed=seed)
    purpose = DatasetPurpose.EVALUATE if held_out else DatasetPurpose.TRAIN
    lines = "".join(
        f"{task.model_dump_json()}\n" for task in open_dataset(source, purpose, None).tasks
    )
    if output is None:
        print(lines, end="")
    else:
        write_atomically(output, lines)


def report(folder: Path = typer.Argument(help="The run's folder.")) -> None:
    """Write a run's report again from its folder."""
    from assay_trainer.evaluation.evaluator import read_evaluations
    from assay_trainer.evaluation.report import write_report
    from assay_trainer.service.record import open_run

    run_folder, config = open_run(folder)
    write_report(run_folder, config, read_evaluations(run_folder))
    print(run_folder.path / "report.html")
