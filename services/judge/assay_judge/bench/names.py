"""The names of sets and prompts; they load nothing."""

from enum import StrEnum


class SetName(StrEnum):
    LLMBAR = "llmbar"
    JUDGEBENCH = "judgebench"
    RMBENCH = "rmbench"

    @property
    def shown(self) -> str:
        """The name that its authors use."""
        return {"llmbar": "LLMBar", "judgebench": "JudgeBench", "rmbench": "RM-Bench"}[self]


class Reason(StrEnum):
    """Where the judge is asked for its reason."""

    AFTER = "after"
    BEFORE = "before"
