"""The served policy version, and the rules for replacing it."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from assay_inference.engines.engine import ResolvedUpdate, WeightHolder
from assay_inference.weights.checkpoint import Checkpoint
from assay_inference.weights.safetensors import check_finite, read_layout
from assay_inference.weights.uploads import Uploads
from assay_shared.errors import Conflict, InternalFault, InvalidInput, WeightsRefused
from assay_shared.types import (
    AdapterWeights,
    CheckedWeights,
    DirectWeights,
    FolderWeights,
    PolicyVersion,
    UploadedWeights,
    WeightStatus,
    WeightUpdate,
)
from assay_shared.weights import checkpoint


class ServedPolicy:
    """The served version. Updates happen one at a time; versions only grow."""

    def __init__(self, engine: WeightHolder, uploads: Uploads, roots: Sequence[Path]) -> None:
        """Accept announced folders only inside `roots`, paths without symbolic links."""
        self._engine = engine
        self._uploads = uploads
        self._roots = roots
        self._start_folder: Path | None = None
        self._updating = asyncio.Lock()
        self._status = WeightStatus(policy=None)
        #: Folder of the engine's weights, now and after a restart.
        self._served_folder: Path | None = None
        self._base: tuple[str, Path] | None = None

    @property
    def base(self) -> tuple[str, Path] | None:
        """Digest and folder of the full checkpoint served last; adapters do not count."""
        return None if self.status.policy is None else self._base

    @property
    def status(self) -> WeightStatus:
        """The served version; none if the engine lost its weights for good."""
        served = self._status if self._engine.holds_weights else WeightStatus(policy=None)
        now = {"replicas": dict(self._engine.replicas), "receiver": self._engine.receiver}
        return served.model_copy(update=now)

    @property
    def is_updating(self) -> bool:
        """Return True while weights are loaded, or wait for an engine that takes them."""
        return self._updating.locked()

    async def start_with(self, folder: Path) -> WeightStatus:
        """Serve `folder` as version 0."""
        self._start_folder = folder  # the operator's own choice: its links may lead anywhere
        digest = await asyncio.to_thread(checkpoint.digest, folder)
        policy = PolicyVersion(version=0, digest=digest)
        source = FolderWeights(path=str(folder))
        return await self.update(WeightUpdate(source=source, policy=policy))

    async def update(self, update: WeightUpdate) -> WeightStatus:
        """Serve another version and return its status.

        Announcing the served version again changes nothing.

        Raises:
            Conflict: the version is not above the served version.
            WeightsRefused: the weights differ from the announcement; the old version stays.
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
                    hint=f"announce {served.version + 1} or above; if another run publishes here, "
                    "give each run a separate inference",
                )
            try:
                folder = None
                source = update.source
                if not isinstance(source, DirectWeights):
                    folder = await self._folder(update)
                    source = FolderWeights(path=str(folder))
                loaded = await self._engine.load(ResolvedUpdate.of(update, source))
            except WeightsRefused:
                await self._keep_only_served()
                raise
            self._served_folder = folder
            if folder is not None and not isinstance(update.source, AdapterWeights):
                self._base = (update.policy.digest, folder)
            self._status = WeightStatus(
                policy=update.policy,
                source=None if isinstance(update.source, DirectWeights) else update.source,
                probe_difference=loaded.probe_difference,
                load_time_s=loaded.load_time_s,
                num_compared=loaded.num_compared,
                num_tensors=loaded.num_tensors,
                phases_s=dict(loaded.phases_s),
            )
            await self._keep_only_served()
            return self.status

    async def check(self, source: FolderWeights) -> CheckedWeights:
        """Return the sizes of a checkpoint without loading its weights.

        Raises:
            InvalidInput: its folder is outside of the roots.
            WeightsRefused: its files, sizes or tokenizer do not fit each other.
        """
        folder, none = Path(source.path), PolicyVersion(version=0, digest="")
        await asyncio.to_thread(self._check_within_roots, folder)
        found = await asyncio.to_thread(Checkpoint.open, folder, none, None, None)
        return CheckedWeights(num_tensors=len(found.layout), max_length=found.vocabulary.max_length)

    async def _keep_only_served(self) -> None:
        folders = {self._served_folder, self._base and self._base[1]}
        await self._uploads.keep_only(folders)

    async def _folder(self, update: WeightUpdate) -> Path:
        """Return a folder with the announced checkpoint, after comparing its digest."""
        source, digest = update.source, update.policy.digest
        match source:
            case FolderWeights():
                folder, digest = Path(source.path), source.files_digest or digest
                await asyncio.to_thread(self._check_within_roots, folder)
            case UploadedWeights():
                folder = await self._uploads.finish(source.upload)
            case AdapterWeights():
                return await self._merged(source, update.policy)
            case DirectWeights():
                raise InternalFault("direct weights have no folder")
        await asyncio.to_thread(_check_digest, folder, checkpoint.digest, digest)
        await asyncio.to_thread(check_finite, await asyncio.to_thread(read_layout, folder))
        return folder

    def _check_within_roots(self, folder: Path) -> None:
        """Check that a folder and its files are inside the roots, after following symbolic links.

        Raises:
            InvalidInput: one is outside. The message does not reveal if the folder exists.
        """
        if folder == self._start_folder:
            return
        try:
            places = [folder.resolve()]
            if _is_within(places, self._roots) and folder.is_dir():
                places += [file.resolve() for file in folder.iterdir()]
        except (OSError, ValueError, RuntimeError):  # too long, a loop of links, a NUL
            places = [Path("/")]
        if not _is_within(places, self._roots):
            raise InvalidInput(
                "the folder is outside the folders that weights are read from",
                field="source.path",
                hint="ASSAY_RUNS and ASSAY_INFERENCE_WEIGHT_ROOTS of this service name them",
            )

    async def _merged(self, source: AdapterWeights, policy: PolicyVersion) -> Path:
        from assay_shared.weights.adapter import merge

        base = self.base
        if base is None or base[0] != source.base:
            raise Conflict(
                f"{source.base[:12]}... is not the full checkpoint that was served last",
                field="source.base",
                hint=f"that is {base[0]}" if base else "announce it first",
            )
        adapter = Path(source.path)
        await asyncio.to_thread(self._check_within_roots, adapter)
        digest_of = partial(checkpoint.adapter_digest, base=source.base)
        await asyncio.to_thread(_check_digest, adapter, digest_of, policy.digest)
        await asyncio.to_thread(_check_digest, base[1], checkpoint.digest, base[0])
        folder = self._uploads.new_folder()
        await asyncio.to_thread(merge, base[1], adapter, folder)
        return folder


def _is_within(places: Iterable[Path], roots: Sequence[Path]) -> bool:
    return all(any(place.is_relative_to(root) for root in roots) for place in places)


def _check_digest(folder: Path, digest_of: Callable[[Path], str], expected: str) -> None:
    found = digest_of(folder)
    if found != expected:
        raise WeightsRefused(
            f"{folder} has digest {found[:12]}..., not {expected[:12]}...",
            field="policy.digest",
        )
