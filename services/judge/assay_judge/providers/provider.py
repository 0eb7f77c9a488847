"""The interface between the chain and its providers."""

from dataclasses import dataclass
from typing import Protocol

from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_shared.providers.call import ModelCall
from assay_shared.types import JudgeForm, JudgeRequest


@dataclass(frozen=True)
class JudgeCall(ModelCall):
    """The circumstances of a judgement. `vote` numbers the replies to the same prompt."""

    vote: int = 0


class Provider(Protocol):
    """A judge: a model or a rule."""

    name: str
    forms: frozenset[JudgeForm]
    #: True if the provider reads the prompt, false if it reads only the request.
    has_prompt: bool

    @property
    def is_open(self) -> bool:
        """True while the provider's circuit is open: it is not asked now."""
        ...

    async def find(
        self, request: JudgeRequest, index: int, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        """Return a finding on the group's prompt number `index`.

        Raises:
            AssayError: the provider gave no finding, or an unreadable reply.
        """
        ...

    async def open(self) -> None:
        """Get ready; called once before the first decision."""
        ...

    async def close(self) -> None:
        """Release the resources taken by `open`."""
        ...
