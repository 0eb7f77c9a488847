"""A policy's folder served: by the inference service that runs, or by an own engine."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path

from assay_shared.clients import InferenceClient, RetryBudget, Timeouts
from assay_shared.clients.weight_upload import upload_weights
from assay_shared.errors import Conflict, InvalidInput, NotReady, Refused
from assay_shared.runs.run_lock import owner_of
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import (
    FolderWeights,
    PolicyVersion,
    UploadedWeights,
    WeightUpdate,
)
from assay_trainer.evaluate.policy.services import OwnServices, own_services, runs_at, start_engine

_ANNOUNCE = Timeouts(read_s=1500.0, total_s=1500.0)
_RETRY = RetryBudget(attempts=40, total_s=60.0)
_PIPELINE = "pipeline.json"


class ServeBy(StrEnum):
    """Who serves the policy: the running service if there is one, that alone, or an own engine."""

    AUTO = "auto"
    SERVICE = "service"
    OWN = "own"


@contextmanager
def served(
    folder: Path, digest: str, by: ServeBy, settings: ServiceSettings
) -> Iterator[tuple[ServiceSettings, PolicyVersion]]:
    """Yield settings with the address of a service, and the version by which it serves `folder`.

    Raises:
        Conflict: a run that is being trained on this machine needs the service for its own policy.
        AssayError: the folder cannot be served.
    """
    with own_services() as own:
        is_running = by is not ServeBy.OWN and runs_at(InferenceClient, settings)
        if by is ServeBy.SERVICE and not is_running:
            raise Refused(
                f"no inference service at {settings.inference_url}",
                hint="start it, or evaluate with --serve own",
            )
        if is_running:
            guard = partial(_refuse_trained, settings.runs)
            yield settings, asyncio.run(publish_folder(folder, digest, settings, guard))
        else:
            yield _by_own(own, folder, settings)


def _by_own(
    own: OwnServices, folder: Path, settings: ServiceSettings
) -> tuple[ServiceSettings, PolicyVersion]:
    changed, _ = start_engine(own, folder, settings)

    async def version() -> PolicyVersion:
        async with InferenceClient.from_settings(changed, retry=_RETRY) as client:
            status = await client.weight_status()
        if status.policy is None:
            raise NotReady("the engine has lost its weights")
        return status.policy

    return changed, asyncio.run(version())


async def publish_folder(
    folder: Path,
    digest: str,
    settings: ServiceSettings,
    before_update: Callable[[], None] = lambda: None,
) -> PolicyVersion:
    """Return the version by which the service serves the folder, announcing it if need be.

    `before_update` may refuse to replace another policy.
    """
    async with InferenceClient.from_settings(settings, timeouts=_ANNOUNCE, retry=_RETRY) as client:
        status = await client.weight_status()
        now = status.policy
        if now is not None and now.digest == digest:
            return now
        await asyncio.to_thread(before_update)
        policy = PolicyVersion(version=status.newest_version + 1, digest=digest)
        try:
            source = FolderWeights(path=str(folder))
            await client.update_weights(WeightUpdate(source=source, policy=policy))
        except InvalidInput as error:
            if error.field != "source.path":
                raise
            uploaded = await upload_weights(client, folder)
            update = WeightUpdate(source=UploadedWeights(upload=uploaded.id), policy=policy)
            await client.update_weights(update)
        return policy


def _refuse_trained(runs: Path) -> None:
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        # A pipeline holds its folder too, and this evaluation may be one of its stages.
        is_pipeline = (folder / _PIPELINE).is_file()
        owner = owner_of(folder) if folder.is_dir() and not is_pipeline else None
        if owner is not None:
            raise Conflict(
                f"inference serves the policy of run {folder.name}, which {owner} trains",
                hint="evaluate with --serve own, or when the run has ended",
            )
