"""Access to user-defined rewards."""

from dataclasses import dataclass, field

from assay_reward.own.addresses import UrlRewards
from assay_reward.own.processes import FunctionProcesses


@dataclass(frozen=True)
class Own:
    """The processes of functions, and the connections to URLs."""

    processes: FunctionProcesses = field(default_factory=FunctionProcesses)
    addresses: UrlRewards = field(default_factory=UrlRewards)

    async def close(self) -> None:
        """End the processes and close the connections."""
        await self.processes.close()
        await self.addresses.close()
