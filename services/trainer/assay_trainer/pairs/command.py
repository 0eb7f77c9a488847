"""`assay data pairs` and `assay data pairs-check`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from assay_trainer.pairs import options
from assay_trainer.pairs.options import CheckedBy, PairsPerPrompt, ScoreKind


def pairs(
    evaluations: options.Evaluations,
    output: options.Output,
    per_prompt: options.PerPrompt = PairsPerPrompt.BEST_WORST,
    score: options.Score = ScoreKind.AUTO,
    margin: options.Margin = 0.3,
    accepted_only: options.AcceptedOnly = False,
    max_similarity: options.MaxSimilarity = 0.95,
    confident: options.Confident = None,
    hallucination: options.Hallucination = None,
    format_violation: options.FormatViolation = None,
    cap: options.Cap = None,
    judge_pairs: options.JudgePairs = False,
    show: options.Show = 20,
    seed: options.Seed = 0,
) -> None:
    """Make preferences for DPO of the stored samples of evaluations."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.pairs.making import make_pairs
    from assay_trainer.pairs.order import ChoiceOrder, PairsOrder, bounds_of, caps_of

    settings = read_settings(ServiceSettings)
    choice = ChoiceOrder(
        per_prompt=per_prompt,
        score=score,
        margin=margin,
        accepted_only=accepted_only,
        max_similarity=max_similarity,
        confident=bounds_of(confident, "--confident"),
        hallucination=bounds_of(hallucination, "--hallucination"),
        format_violation=bounds_of(format_violation, "--format-violation"),
        caps=caps_of(cap or ()),
    )
    places = tuple(evaluations)
    order = PairsOrder(places, output, choice, judge_pairs, show, seed, settings.data)
    with _progress("judged pairs") as report:
        made = make_pairs(order, settings, report)
    _tell(made.numbers)
    print(f"pairs: {output}")


def pairs_check(
    source: Annotated[
        Path, typer.Argument(metavar="PATH", help="A folder of preferences, or a file of pairs.")
    ],
    output: options.Output,
    by: Annotated[CheckedBy, typer.Option(help="Who says which answer is better.")] = (
        CheckedBy.JUDGE
    ),
    rubric: Annotated[str | None, typer.Option(help="Of --by reward: the rubric.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Of --by reward: the tasks that the pairs are of.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Check this number of random pairs.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which pairs.")] = 0,
) -> None:
    """Measure how often a judge, a rubric or stored scores agree with the labels of pairs."""
    from assay_shared.errors import InvalidInput
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.pairs.checking import CheckOrder, check_pairs

    if by is not CheckedBy.REWARD and (rubric or tasks):
        raise InvalidInput("--rubric and --tasks go with --by reward", field="--by")
    settings = read_settings(ServiceSettings)
    order = CheckOrder(source, output, by, rubric, tasks, limit, seed, settings.data)
    with _progress("pairs") as report:
        numbers = check_pairs(order, settings, report)
    _tell(numbers)
    print(f"metrics: {output / 'metrics.json'}")


def _tell(numbers: Mapping[str, Any]) -> None:
    """Print the numbers, and what is wrong with the judge."""
    from assay_trainer.pairs.page import lines_of

    for title, told in lines_of(numbers):
        print(f"{title:<20} {told}")
    first = numbers.get("first_choice")
    if first and (first["low"] > 0.5 or first["high"] < 0.5):
        place = "first" if first["low"] > 0.5 else "second"
        print(
            f"the judge prefers the answer shown {place}: only pairs that both orders decide count"
        )


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows how many of all are done."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
