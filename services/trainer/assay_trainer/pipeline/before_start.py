"""The checks of a command before its run has a folder: a refused command leaves nothing behind."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import (
    CallerError,
    ConfigError,
    DatasetError,
    InvalidInput,
    NotReady,
    TimedOut,
    Unreachable,
    WeightsRefused,
)
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import FolderWeights
from assay_trainer.config import RunConfig
from assay_trainer.data.tables import check_table
from assay_trainer.inert_rules import refuse_inert
from assay_trainer.learner.network.adapters import check_lora
from assay_trainer.learner.network.context import known_context
from assay_trainer.learner.ranks import check_gpus
from assay_trainer.pipeline.plan_rules import refuse_long_answers
from assay_trainer.pipeline.tiers import field_of_set
from assay_trainer.pipeline.trackers import check_trackers
from assay_trainer.rollouts.store import GroupStore
from assay_trainer.table_source import PreferenceFile, TableSource
from assay_trainer.weights.model_folder import check_folder

_POLICY = "policy.folder"
#: Sources that name a file, by section and key of the run file.
_SOURCES = (("data", "train"), ("data", "held_out"), ("data", "demonstrations"), ("dpo", "data"))


def check_start(config: RunConfig, settings: ServiceSettings, gpus: Sequence[int]) -> None:
    """Check that a new run can start here: its policy, its files, and the machine.

    Raises:
        NotFound: the policy's folder has no model.
        InvalidInput: the policy's folder has a LoRA adapter, or weights that cannot be read.
        DatasetError: a named file is missing.
        ConfigError: a GPU, CUDA, or a tracker is missing, a switch cannot act, or an answer may be
            as long as the policy's context.
        Unreachable: Redis does not answer.
    """
    refuse_inert(config)
    check_machine(config)
    check_gpus(gpus)
    refuse_long_answers(config, known_context(config.policy))
    with closing(GroupStore(settings.redis_url)) as store:
        store.check()


def check_place(folder: Path, settings: ServiceSettings, field: str = "--folder") -> None:
    """Check that inference reads weights from a run's folder, which need not exist yet.

    Raises:
        ConfigError: inference reads nothing there; names `field`.
    """
    try:
        with suppress(WeightsRefused):  # the folder has no weights yet
            ask_inference(folder, settings)
    except InvalidInput as error:
        raise ConfigError(
            f"inference reads no weights from {folder.resolve()}",
            field=field,
            hint="choose a folder within ASSAY_RUNS of the inference service, or name a folder "
            "above it in ASSAY_INFERENCE_WEIGHT_ROOTS there",
        ) from error


def ask_inference(folder: Path, settings: ServiceSettings) -> None:
    """Ask inference if it would serve the weights in a folder.

    An upload needs no folder, and inference that does not answer says nothing: then nothing is
    raised.

    Raises:
        InvalidInput: inference does not read this folder.
        WeightsRefused: its engine does not serve this model or its tokenizer, or there is none.
    """
    if settings.weight_transfer == "upload":
        return
    source = FolderWeights(path=str(folder.resolve()))

    async def ask() -> None:
        async with InferenceClient.from_settings(settings, retry=NO_RETRY) as client:
            await client.check_weights(source)

    with suppress(NotReady, TimedOut, Unreachable):
        asyncio.run(ask())


def check_machine(config: RunConfig) -> None:
    """Check that this machine has what a run file names: a policy, files, and trackers.

    Raises:
        NotFound: the policy's folder has no model.
        InvalidInput: the policy's folder has a LoRA adapter, or weights that cannot be read.
        DatasetError: named files are missing; the error names all of them, and a missing policy. Or
            a table is a folder, or has another kind's name.
        ConfigError: CUDA or a tracker is missing.
    """
    policy = config.policy.folder
    missing = _missing(config)
    if missing and policy is not None and not policy.exists():
        missing.insert(0, (_POLICY, str(policy)))
    elif policy is not None:
        try:
            check_folder(policy)
        except CallerError as error:
            raise type(error)(error.message, field=_POLICY, hint=error.hint) from None
    if missing:
        raise _no_files(missing)
    _check_tables(config)
    check_lora(config.policy.lora)
    check_trackers(config.trackers)


def check_files(config: RunConfig) -> None:
    """Look for the files of data. Raises DatasetError: some are missing, or not tables."""
    missing = _missing(config)
    if missing:
        raise _no_files(missing)
    _check_tables(config)


def _missing(config: RunConfig) -> list[tuple[str, str]]:
    """Return the fields and paths of sources without a file or folder there.

    A pipe is none: rows are read more than once.
    """
    return [
        (field, str(path))
        for field, path in _files(config)
        if not (path.is_file() or path.is_dir())
    ]


def _no_files(missing: list[tuple[str, str]]) -> DatasetError:
    paths = dict.fromkeys(path for _, path in missing)
    is_relative = any(not Path(path).is_absolute() for path in paths)
    return DatasetError(
        f"there is no file {', nor '.join(paths)}",
        field=", ".join(field for field, _ in missing),
        hint=f"relative paths begin in {Path.cwd()}" if is_relative else None,
    )


def _files(config: RunConfig) -> Iterator[tuple[str, Path]]:
    """Yield the fields of sources that name a file, with the file."""
    for field, source in _sources(config):
        path = getattr(source, "path", None)
        if path is not None:
            yield f"{field}.path", path


def _check_tables(config: RunConfig) -> None:
    for field, source in _sources(config):
        if isinstance(source, TableSource | PreferenceFile):
            try:
                check_table(source.path)
            except DatasetError as error:
                raise DatasetError(error.message, field=f"{field}.path", hint=error.hint) from None


def _sources(config: RunConfig) -> list[tuple[str, object]]:
    """Return the sources of rows, by their field in the run file."""
    sources = [(f"{at}.{key}", getattr(getattr(config, at), key, None)) for at, key in _SOURCES]
    for tier in config.evaluation.tiers:
        sources += [(field_of_set(tier, name), source) for name, source in tier.sets.items()]
    return sources
