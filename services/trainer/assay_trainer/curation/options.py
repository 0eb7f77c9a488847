"""The options of the commands; nothing heavy is imported here."""

from enum import StrEnum
from typing import Annotated

import typer


class ControlTokenRule(StrEnum):
    """The fate of a row with a token of a chat template; rows for tests stay."""

    KEEP = "keep"
    REFUSE = "refuse"


ControlTokens = Annotated[
    ControlTokenRule,
    typer.Option(help="Rows for training with a token of a chat template, such as <|im_end|>."),
]
Similarity = Annotated[
    float | None, typer.Option(min=0.3, max=0.99, help="Similarity of near duplicates.")
]
