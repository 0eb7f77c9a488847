"""What rewards of users are asked with."""

from dataclasses import dataclass, field

from assay_reward.own.addresses import Addresses
from assay_reward.own.processes import Processes


@dataclass(frozen=True)
class Own:
    """The processes of functions, and the connections to URLs."""

    processes: Processes = field(default_factory=Processes)
    addresses: Addresses = field(default_factory=Addresses)

    async def close(self) -> None:
        """End the processes and close the connections."""
        await self.processes.close()
        await self.addresses.close()
