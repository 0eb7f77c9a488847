"""Names of bench sets and prompts, in a module without heavy imports."""

from enum import StrEnum


class SetName(StrEnum):
    LLMBAR = "llmbar"
    JUDGEBENCH = "judgebench"
    RMBENCH = "rmbench"

    @property
    def shown(self) -> str:
        """The name used by the set's authors."""
        return {"llmbar": "LLMBar", "judgebench": "JudgeBench", "rmbench": "RM-Bench"}[self]


class Reason(StrEnum):
    """The place of the reason in the judge's reply: after or before the verdict."""

    AFTER = "after"
    BEFORE = "before"
