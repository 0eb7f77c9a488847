"""The options of the commands; nothing heavy is imported here."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class PairsPerPrompt(StrEnum):
    """`best-worst`: one pair a task. `k-1`: the best answer against each other answer."""

    BEST_WORST = "best-worst"
    ALL_BUT_ONE = "k-1"


class ScoreKind(StrEnum):
    """The score to compare answers by. `auto`: the share of tests, if all answers have tests."""

    AUTO = "auto"
    REWARD = "reward"
    PASS_RATIO = "pass_ratio"


class CheckedBy(StrEnum):
    """The source of the better answer's name."""

    SCORES = "scores"
    JUDGE = "judge"
    REWARD = "reward"


_BOUND = "Component or judge's grade with a bound, such as"

Evaluations = Annotated[
    list[Path], typer.Argument(metavar="EVALUATION...", help="Folders of `assay evaluate`.")
]
Output = Annotated[Path, typer.Option(help="A new folder to write to.")]
PerPrompt = Annotated[
    PairsPerPrompt, typer.Option(help="The best answer against the worst, or each other one.")
]
Score = Annotated[
    ScoreKind, typer.Option(help="What is compared; auto: the share of tests if there is one.")
]
Margin = Annotated[float, typer.Option(min=0.0, help="Least difference of the scores.")]
AcceptedOnly = Annotated[
    bool, typer.Option("--accepted-only", help="Choose accepted answers alone.")
]
MaxSimilarity = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Answers that share more words are one answer.")
]
Confident = Annotated[
    list[str] | None, typer.Option(help=f"{_BOUND} confidence>=0.7: other samples are left out.")
]
Hallucination = Annotated[
    list[str] | None, typer.Option(help=f"{_BOUND} faithful<0.5: such an answer is of this type.")
]
FormatViolation = Annotated[
    list[str] | None, typer.Option(help=f"{_BOUND} form<1: such an answer is of this type.")
]
Cap = Annotated[list[str] | None, typer.Option(help="TYPE=NUMBER: the most pairs of a type.")]
JudgePairs = Annotated[
    bool, typer.Option("--judge-pairs", help="Keep pairs that the judge prefers in both orders.")
]
Show = Annotated[int, typer.Option(min=0, max=1000, help="Pairs in the sample for people.")]
Seed = Annotated[int, typer.Option(help="Which pairs a cap keeps, and which are shown.")]
