"""The seam between the chain and what decides."""

from typing import Protocol

from assay_shared.types import Verdict


class Provider(Protocol):
    """One judge."""

    name: str

    async def decide(self, question: str, answer: str, reference: str | None) -> Verdict:
        """A verdict.

        Raises:
            AssayError: it gave none, or one that cannot be read. That is never a verdict.
        """
        ...

    async def open(self) -> None:
        """Get ready; called once before the first decision."""
        ...

    async def close(self) -> None:
        """Let go of what `open` took."""
        ...
