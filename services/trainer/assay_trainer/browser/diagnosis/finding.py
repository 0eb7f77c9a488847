"""A finding: a fault in a run's numbers, and the change to make."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assay_trainer.browser.diagnosis.facts import DiagnosedFacts


@dataclass(frozen=True)
class RunFinding:
    """A fault of a run, found by a rule.

    `message` has the measured number and its limit, `fix` the setting to change. `alert` is the
    heading in docs/runbook.md about the same fault; empty without one.
    """

    rule: str
    message: str
    fix: str
    value: float
    limit: float
    alert: str = ""

    @property
    def told(self) -> str:
        """Return message and fix as one sentence."""
        return f"{self.message}: {self.fix}"


Rule = Callable[[DiagnosedFacts], Iterator[RunFinding]]
