"""Which version is served, and the rules by which another takes its place."""

import asyncio
from pathlib import Path

from assay_inference.engine import Engine
from assay_shared import checkpoint
from assay_shared.errors import Conflict, WeightsRefused
from assay_shared.types import FolderWeights, PolicyVersion, WeightStatus, WeightUpdate


class Policy:
    """The served version. Updates happen one at a time; versions only grow."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._updating = asyncio.Lock()
        self._status = WeightStatus(policy=None)

    @property
    def status(self) -> WeightStatus:
        """What is served; an engine that lost its weights for good serves none."""
        served = self._status if self._engine.holds_weights else WeightStatus(policy=None)
        return served.model_copy(update={"replicas": dict(self._engine.replicas)})

    async def start_with(self, folder: Path) -> None:
        """Serve `folder` as version 0."""
        digest = await asyncio.to_thread(checkpoint.digest, folder)
        policy = PolicyVersion(version=0, digest=digest)
        await self.update(WeightUpdate(source=FolderWeights(path=str(folder)), policy=policy))

    async def update(self, update: WeightUpdate) -> WeightStatus:
        """Serve another version. Announcing the served one again changes nothing.

        Raises:
            Conflict: the version is not above the served one.
            WeightsRefused: the folder is not what was announced; the old version stays.
        """
        async with self._updating:
            served = self._status.policy
            is_again = served == update.policy
            if is_again and self._engine.holds_weights:
                return self.status
            if served is not None and not is_again and update.policy.version <= served.version:
                raise Conflict(
                    f"version {served.version} is served, and versions never go backwards",
                    field="policy.version",
                    hint=f"announce {served.version + 1} or above",
                )
            await asyncio.to_thread(_check_digest, Path(update.source.path), update.policy)
            loaded = await self._engine.load(update)
            self._status = WeightStatus(
                policy=update.policy,
                source=update.source,
                probe_difference=loaded.probe_difference,
                load_time_s=loaded.load_time_s,
                num_compared=loaded.num_compared,
                num_tensors=loaded.num_tensors,
                phases_s=dict(loaded.phases_s),
            )
            return self.status


def _check_digest(folder: Path, policy: PolicyVersion) -> None:
    digest = checkpoint.digest(folder)
    if digest != policy.digest:
        raise WeightsRefused(
            f"{folder} has digest {digest[:12]}..., not {policy.digest[:12]}...",
            field="policy.digest",
        )
