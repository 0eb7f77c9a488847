"""Which version is served, and the rules by which another takes its place."""

import asyncio
from pathlib import Path

from assay_inference.engine import Engine
from assay_inference.uploads import Uploads
from assay_shared import checkpoint
from assay_shared.errors import Conflict, WeightsRefused
from assay_shared.types import (
    FolderWeights,
    PolicyVersion,
    UploadedWeights,
    WeightSource,
    WeightStatus,
    WeightUpdate,
)


class Policy:
    """The served version. Updates happen one at a time; versions only grow."""

    def __init__(self, engine: Engine, uploads: Uploads) -> None:
        self._engine = engine
        self._uploads = uploads
        self._updating = asyncio.Lock()
        self._status = WeightStatus(policy=None)
        self._served_folder: Path | None = None

    @property
    def served_files(self) -> tuple[str, Path] | None:
        """Digest and folder of what is served."""
        policy = self.status.policy
        if policy is None or self._served_folder is None:
            return None
        return policy.digest, self._served_folder

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
            folder = await self._folder(update.source)
            await asyncio.to_thread(_check_digest, folder, update.policy)
            found = FolderWeights(path=str(folder))
            try:
                loaded = await self._engine.load(update.model_copy(update={"source": found}))
            except WeightsRefused:
                await self._uploads.keep_only(self._served_folder)
                raise
            self._served_folder = folder
            self._status = WeightStatus(
                policy=update.policy,
                source=update.source,
                probe_difference=loaded.probe_difference,
                load_time_s=loaded.load_time_s,
                num_compared=loaded.num_compared,
                num_tensors=loaded.num_tensors,
                phases_s=dict(loaded.phases_s),
            )
            await self._uploads.keep_only(folder)
            return self.status

    async def _folder(self, source: WeightSource) -> Path:
        match source:
            case FolderWeights():
                return Path(source.path)
            case UploadedWeights():
                return await self._uploads.finish(source.upload)


def _check_digest(folder: Path, policy: PolicyVersion) -> None:
    digest = checkpoint.digest(folder)
    if digest != policy.digest:
        raise WeightsRefused(
            f"{folder} has digest {digest[:12]}..., not {policy.digest[:12]}...",
            field="policy.digest",
        )
