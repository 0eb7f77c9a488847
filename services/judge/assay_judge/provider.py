"""The seam between the chain and what decides."""

from dataclasses import dataclass
from typing import Protocol

from assay_judge.forms import Ask, Finding
from assay_shared.types import JudgeForm, JudgeRequest


@dataclass(frozen=True)
class Asking:
    """On whose behalf, and until when (`time.monotonic`); `vote` counts replies to the same ask."""

    caller: str
    run: str
    deadline: float
    vote: int = 0


class Provider(Protocol):
    """One judge."""

    name: str
    forms: frozenset[JudgeForm]
    #: Whether it reads the ask's prompt, or only the request.
    has_prompt: bool

    @property
    def is_open(self) -> bool:
        """Whether its circuit is: it is left alone for now."""
        ...

    async def find(self, request: JudgeRequest, index: int, ask: Ask, asking: Asking) -> Finding:
        """A finding on the group's `index`-th ask.

        Raises:
            AssayError: it gave none, or one that cannot be read. That is never a finding.
        """
        ...

    async def open(self) -> None:
        """Get ready; called once before the first decision."""
        ...

    async def close(self) -> None:
        """Let go of what `open` took."""
        ...
