"""A hand-off: the checkpoint becomes a folder, the folder is checked, the manifest says so."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.errors import Conflict, InvalidInput
from assay_shared.weights import checkpoint
from assay_trainer.handoff.checks import engines, folder, texts
from assay_trainer.handoff.checks.check import HandoffCheck, judged
from assay_trainer.handoff.engines.answers import FolderAccount, read_prompts
from assay_trainer.handoff.engines.fresh import AskedFolder, Asking, NotLoaded, ask_transformers
from assay_trainer.handoff.manifest import FileFacts, HandoffManifest, SourceFacts
from assay_trainer.handoff.order import HandoffOrder
from assay_trainer.handoff.progress import HandoffProgress
from assay_trainer.handoff.run_facts import run_facts
from assay_trainer.handoff.sources.prepare import prepare
from assay_trainer.handoff.sources.recognise import recognise
from assay_trainer.handoff.sources.source import HandoffSource, PreparedSource, SourceKind
from assay_trainer.handoff.writing.files import CopiedFiles, read_config, write_files
from assay_trainer.handoff.writing.tensors import (
    NotHandedOff,
    StoredTensor,
    WrittenWeights,
    read_weights,
    without_tied,
    write_weights,
)

#: A checkpoint of the form that holds more than the weights that are written.
_SPARE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class _Written:
    """The output folder without its manifest."""

    folder: Path
    weights: WrittenWeights
    files: CopiedFiles


def hand_off(order: HandoffOrder, progress: HandoffProgress) -> HandoffManifest:
    """Write the checkpoint as a Hugging Face folder with its manifest; return the manifest.

    The folder appears in one step, with all its checks made; their verdicts may be FAIL.

    Raises:
        Conflict: the output exists.
        InvalidInput: an option, or the checkpoint's form, is not usable.
        WeightsRefused: the checkpoint is damaged, or its parts do not fit together.
        NotHandedOff: the output cannot be written.
    """
    if order.output.exists() or order.output.is_symlink():
        raise Conflict(f"{order.output} exists", field="--output", hint="name a new folder")
    source = recognise(order.checkpoint, order.base, order.tokenizer)
    asking = Asking(read_prompts(order.prompts), order.max_tokens, order.device, order.limit_s)
    with _scratch(order.output) as scratch:
        with progress.part(f"reading the {source.kind}"):
            prepared = prepare(source, scratch, order.limit_s)
        config = read_config(prepared.folder)
        weights = read_weights(prepared.folder, _dtype(order, source, config))
        folder.check_tokenizer(source.tokenizer, weights)
        _check_room(order.output, weights)
        made: list[HandoffManifest] = []

        def write(partial: Path) -> dict[str, str]:
            written = _write(source, prepared, config, weights, partial, progress)
            made.append(_checked(order, source, prepared, written, asking, progress))
            made[0].write(partial)
            return written.weights.digests

        checkpoint.publish(order.output, write)
    return made[0]


@contextmanager
def _scratch(output: Path) -> Iterator[Path]:
    """Yield an empty folder next to the output, removed after the block."""
    folder = output.with_name(f".{output.name}.source")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise NotHandedOff(
            f"{output.parent} cannot be written to: {error.strerror}", field="--output"
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _dtype(order: HandoffOrder, source: HandoffSource, config: dict[str, Any]) -> str | None:
    """Return the type to write; of shards, which are float32 while training, config.json's."""
    if order.dtype is not None:
        if config.get("quantization_config"):
            raise InvalidInput("quantized weights keep their type", field="--dtype")
        return order.dtype
    if source.kind is SourceKind.SHARDS:
        named = config.get("dtype", config.get("torch_dtype"))
        return named if named in ("bfloat16", "float16", "float32") else None
    return None


def _check_room(output: Path, weights: dict[str, StoredTensor]) -> None:
    needed = sum(one.written.num_bytes for one in weights.values()) + _SPARE_BYTES
    free = shutil.disk_usage(output.parent).free
    if free < needed:
        raise NotHandedOff(
            f"{output.parent} has {free:,} bytes free, and the folder needs {needed:,}",
            field="--output",
        )


def _write(
    source: HandoffSource,
    prepared: PreparedSource,
    config: dict[str, Any],
    weights: dict[str, StoredTensor],
    partial: Path,
    progress: HandoffProgress,
) -> _Written:
    kept, _ = without_tied(weights, config)
    total = sum(one.written.num_bytes for one in kept.values())
    with progress.part("writing the weights", total) as advance:
        written = write_weights(weights, config, partial, advance)
    main_dtype = max(written.dtypes, key=lambda name: written.dtypes[name])
    files = write_files(prepared.folder, source.tokenizer, config, main_dtype, partial)
    return _Written(partial, written, files)


def _checked(
    order: HandoffOrder,
    source: HandoffSource,
    prepared: PreparedSource,
    written: _Written,
    asking: Asking,
    progress: HandoffProgress,
) -> HandoffManifest:
    """Return the manifest of the written folder, after all checks."""
    partial = written.folder
    digests = {
        file.relative_to(partial).as_posix(): checkpoint.file_digest(file)
        for file in sorted(partial.rglob("*"))
        if file.is_file()
    }
    checks = [
        folder.written_files(digests, written.weights.digests),
        folder.finite_weights(written.weights),
    ]
    found: FolderAccount | None = None
    try:
        with progress.part("answers of the folder", len(asking.prompts)) as advance:
            asked = AskedFolder(partial, partial)
            found = ask_transformers(asked, asking, lambda: advance(1))
    except NotLoaded as error:
        checks.append(engines.not_loaded(str(error)))
    if found is not None:
        checks += _checks_of(order, source, prepared, written, asking, found, progress)
    return HandoffManifest(
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        digest=checkpoint.digest(partial),
        source=SourceFacts(
            kind=source.kind,
            path=str(source.path),
            digest=prepared.digest,
            base=str(source.base) if source.base else None,
            tokenizer=str(source.tokenizer),
            step=source.step,
        ),
        run=run_facts(source.run) if source.run else None,
        architecture=", ".join(map(str, written.files.config.get("architectures") or ["unnamed"])),
        num_parameters=written.weights.num_entries,
        dtype=str(written.files.config["dtype"]),
        files={
            name: FileFacts(num_bytes=(partial / name).stat().st_size, sha256=one)
            for name, one in digests.items()
        },
        config_changes=written.files.config_changes,
        left_out=written.files.left_out,
        checks=tuple(checks),
        versions=found.versions if found else {},
    )


def _checks_of(
    order: HandoffOrder,
    source: HandoffSource,
    prepared: PreparedSource,
    written: _Written,
    asking: Asking,
    found: FolderAccount,
    progress: HandoffProgress,
) -> list[HandoffCheck]:
    """Return the checks of a folder that transformers loads."""
    is_adapter = source.kind is SourceKind.ADAPTER
    original = source.base if is_adapter and source.base else prepared.folder
    asked = AskedFolder(original, source.tokenizer, source.path if is_adapter else None)
    compared_with = {
        SourceKind.FOLDER: "the source",
        SourceKind.ADAPTER: "the base with the adapter on top, by peft",
        SourceKind.SHARDS: "the gathered shards",
        SourceKind.STATE: "the checkpoint's weights",
    }[source.kind]
    checks = [
        engines.loading(found),
        folder.architecture(written.files.config, found),
        folder.parameters(found, written.weights),
        folder.vocabulary(written.files.config, found),
        texts.special_tokens(found),
        texts.end_tokens(found),
    ]
    try:
        with progress.part("answers of the source", len(asking.prompts)) as advance:
            before = ask_transformers(asked, asking, lambda: advance(1))
    except NotLoaded as error:
        checks.append(judged("same as the source", False, f"the source: {error}"))
    else:
        checks += [
            texts.template(before, found),
            engines.same_as_source(
                before,
                found,
                is_rounded=is_adapter or written.weights.is_rounded,
                compared_with=compared_with,
            ),
        ]
    checks.append(texts.stopping(found, order.min_stopping, is_asked=order.prompts is not None))
    with progress.part("Assay's own engine"):
        checks.append(engines.own_engine(written.folder, found, asking, order.tie_nats))
    with progress.part("vLLM"):
        checks.append(engines.vllm(written.folder, found, asking, order.tie_nats, order.vllm))
    return checks
