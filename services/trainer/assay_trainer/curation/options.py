"""The options of the commands; nothing heavy is imported here."""

from enum import StrEnum


class ControlTokenRule(StrEnum):
    """What becomes of a row with a token of a chat template; rows for tests stay."""

    KEEP = "keep"
    REFUSE = "refuse"
