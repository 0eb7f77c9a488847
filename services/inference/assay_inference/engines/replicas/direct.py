"""Direct transfers to all replicas of a router: what they reach, and each replica's place."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay_inference.engines.engine import Loaded, ResolvedUpdate
from assay_inference.engines.replicas.replica_state import ReplicaState, shown
from assay_inference.weights.checkpoint import WorkerPlace
from assay_shared.errors import AssayError, NotReady, WeightsRefused
from assay_shared.types import DirectWeights, PolicyVersion, WeightReceiver

_log = logging.getLogger(__name__)
_RETRY_AFTER_S = 2.0
_BY_FOLDER = "publish this version by a folder"


def joined_receiver(
    members: Mapping[str, ReplicaState], served: PolicyVersion | None
) -> WeightReceiver | None:
    """Return the workers of all replicas as those of one engine.

    None if a replica does not serve the served version, or takes only folders.
    """
    found = [m.replica.receiver if m.serves({served}) else None for m in members.values()]
    receivers = [one for one in found if one is not None]
    dtypes = {one.dtype for one in receivers}
    if len(receivers) < len(found) or len(dtypes) != 1:
        return None
    devices = tuple(device for one in receivers for device in one.devices)
    return WeightReceiver(devices=devices, dtype=dtypes.pop())


def check_all_serve(members: Mapping[str, ReplicaState], served: PolicyVersion | None) -> None:
    """Raise WeightsRefused unless a direct transfer would reach every replica."""
    if served is None:
        raise WeightsRefused("the first version has to come by a folder", field="source.kind")
    for name, member in members.items():
        if not member.serves({served}):
            why = member.failure or f"it serves {shown(member.policy)}"
            raise WeightsRefused(
                f"{name} does not serve version {served.version}: {why}", hint=_BY_FOLDER
            )
    if joined_receiver(members, served) is None:
        raise WeightsRefused("these replicas take only folders", hint=_BY_FOLDER)


class JointTransfer:
    """A direct transfer to all members. It fails at once if it fails on one."""

    def __init__(self, update: ResolvedUpdate, members: Mapping[str, ReplicaState]) -> None:
        self._update = update
        self._members = members
        self._failed: asyncio.Future[tuple[str, AssayError]] = (
            asyncio.get_running_loop().create_future()
        )
        #: They may outlive a failed transfer: a member recovers meanwhile.
        self.gives: Sequence[asyncio.Task[Loaded | None]] = ()

    async def run(self) -> list[Loaded]:
        """Return the result of every member.

        Raises:
            WeightsRefused: a member did not take the weights.
            NotReady: a member was lost.
        """
        self.gives = [asyncio.create_task(self._give(*placed)) for placed in self._placed()]
        all_given = asyncio.gather(*self.gives)
        all_given.add_done_callback(_note_end)
        try:
            either: set[asyncio.Future[Any]] = {all_given, self._failed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not self._failed.done():
                return [loaded for loaded in all_given.result() if loaded is not None]
        except asyncio.CancelledError:
            all_given.cancel()
            raise
        name, error = self._failed.result()
        version = self._update.policy.version
        message = f"{name} did not take version {version} directly: {error.message}"
        if isinstance(error, WeightsRefused):
            raise WeightsRefused(message, hint=error.hint) from error
        raise NotReady(message, retry_after_s=_RETRY_AFTER_S) from error

    def _placed(self) -> Iterator[tuple[str, ReplicaState, WorkerPlace]]:
        counts = {name: _num_workers(member) for name, member in self._members.items()}
        first = 0
        for name, member in self._members.items():

            def fail(error: AssayError, name: str = name) -> None:
                self._fail(name, error)

            yield name, member, WorkerPlace(first, sum(counts.values()), fail)
            first += counts[name]

    async def _give(self, name: str, member: ReplicaState, place: WorkerPlace) -> Loaded | None:
        try:
            return await member.give(self._update.model_copy(update={"place": place}))
        except AssayError as error:
            self._fail(name, error)
            return None

    def _fail(self, name: str, error: AssayError) -> None:
        if not self._failed.done():
            self._failed.set_result((name, error))


def _note_end(given: asyncio.Future[list[Loaded | None]]) -> None:
    """Log a bug in a member that was no longer waited for."""
    if not given.cancelled() and (error := given.exception()) is not None:
        _log.error("a replica failed to take weights: %r", error)


def is_direct(update: ResolvedUpdate | None) -> bool:
    """Return True if the weights came from a trainer's memory: they cannot be given again."""
    return update is not None and isinstance(update.source, DirectWeights)


def _num_workers(member: ReplicaState) -> int:
    receiver = member.replica.receiver
    return 0 if receiver is None else len(receiver.devices)
