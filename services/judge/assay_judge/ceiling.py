"""A ledger with a ceiling over everything that a measurement of judges costs."""

from assay_shared.errors import BudgetExceeded
from assay_shared.providers.state.ledger import ProcessLedger


class CeilingLedger(ProcessLedger):
    """A ledger with a ceiling over all runs together.

    `what` names the measurement, and `earlier` is the cost of its earlier starts. `is_reached` is
    set when a request is refused.
    """

    def __init__(self, what: str, ceiling: float | None, earlier: float = 0.0) -> None:
        super().__init__()
        self._what = what
        self._ceiling = ceiling
        self.earlier = earlier
        self.is_reached = False

    async def told(self) -> str:
        """Return the spent money and the ceiling, as a text."""
        return f"{self._what} has spent {await self._money():.6f} of {self._ceiling or 0:g}"

    async def check(self, run: str, caller: str, ceiling: float | None) -> None:
        """Implement `Ledger.check` with this ledger's own ceiling; each request is checked once."""
        if self._ceiling is not None and await self._money() >= self._ceiling:
            self.is_reached = True
            raise BudgetExceeded(await self.told())

    async def _money(self) -> float:
        return self.earlier + (await self.spent()).money
