"""A hand-off: the checkpoint becomes a folder, the folder is checked, the manifest says so."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from assay_shared.errors import Conflict, InvalidInput
from assay_shared.weights import checkpoint
from assay_trainer.handoff.checks.all_checks import CheckedFolder, WrittenFolder, check_folder
from assay_trainer.handoff.checks.folder import check_tokenizer
from assay_trainer.handoff.checks.names import check_names
from assay_trainer.handoff.engines.answers import read_prompts
from assay_trainer.handoff.engines.fresh import Asking
from assay_trainer.handoff.manifest import FileFacts, HandoffManifest, SourceFacts
from assay_trainer.handoff.order import HandoffOrder, check_output
from assay_trainer.handoff.progress import HandoffProgress
from assay_trainer.handoff.run_facts import run_facts
from assay_trainer.handoff.sources.prepare import prepare
from assay_trainer.handoff.sources.recognise import has_tokenizer, recognise
from assay_trainer.handoff.sources.source import HandoffSource, PreparedSource, SourceKind
from assay_trainer.handoff.writing.files import read_config, write_files
from assay_trainer.handoff.writing.tensors import (
    NotHandedOff,
    PlannedTensor,
    main_dtype,
    read_weights,
    without_tied,
    write_weights,
)

#: Room for the files next to the weights.
_SPARE_BYTES = 64 * 2**20


def hand_off(order: HandoffOrder, progress: HandoffProgress) -> HandoffManifest:
    """Write the checkpoint as a Hugging Face folder with its manifest; return the manifest.

    The folder appears in one step, with all its checks made; their verdicts may be FAIL.

    Raises:
        Conflict: the output exists, or another command writes it.
        InvalidInput: an option, or the checkpoint's form, is not usable.
        WeightsRefused: the checkpoint is damaged, or its parts do not fit together.
        NotHandedOff: the output cannot be written.
    """
    check_output(order.output)
    source = recognise(order.checkpoint, order.base, order.tokenizer)
    asking = Asking(read_prompts(order.prompts), order.max_tokens, order.device, order.limit_s)
    with _scratch(order.output) as scratch:
        with progress.part(f"reading the {source.kind}"):
            prepared = prepare(source, scratch, order.limit_s)
        config = read_config(prepared.folder)
        weights = read_weights(prepared.folder, _dtype(order, source, config))
        check_names(prepared.folder, config, weights)
        check_tokenizer(source.tokenizer, weights, _trained_with(source))
        _check_room(order.output, weights)
        made: list[HandoffManifest] = []

        def write(partial: Path) -> dict[str, str]:
            written = _write(source, prepared, config, weights, partial, progress)
            checked = check_folder(order, source, prepared, written, asking, progress)
            made.append(_manifest(source, prepared, written, checked))
            made[0].write(partial)
            return written.weights.digests

        checkpoint.publish(order.output, write)
    return made[0]


@contextmanager
def _scratch(output: Path) -> Iterator[Path]:
    """Yield an empty folder next to the output, removed after the block.

    Its lock keeps a second command out, and ends with this process however that ends.
    """
    folder = output.with_name(f".{output.name}.source")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise NotHandedOff(
            f"{output.parent} cannot be written to: {error.strerror}", field="--output"
        ) from None
    try:
        _lock(fd, folder, output)
        try:
            _empty(folder)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)


def _lock(fd: int, folder: Path, output: Path) -> None:
    with suppress(OSError):  # some network file systems lock no folders
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A command that ended just now has removed the folder that was opened.
            is_held = folder.stat().st_ino == os.fstat(fd).st_ino
        except (BlockingIOError, FileNotFoundError):
            is_held = False
        if not is_held:
            raise Conflict(
                f"another command writes {output}",
                field="--output",
                hint="wait for its end, or name another folder",
            )
    check_output(output)


def _empty(folder: Path) -> None:
    """Remove what a killed command left."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()


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


def _trained_with(source: HandoffSource) -> Path | None:
    """Return the tokenizer whose ids the model knows: the checkpoint's own, else the base's."""
    if source.replaced_tokenizer is not None:
        return source.replaced_tokenizer
    base = source.base
    return base if base is not None and has_tokenizer(base) else None


def _check_room(output: Path, weights: dict[str, PlannedTensor]) -> None:
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
    weights: dict[str, PlannedTensor],
    partial: Path,
    progress: HandoffProgress,
) -> WrittenFolder:
    kept, _ = without_tied(weights, config)
    total = sum(one.written.num_bytes for one in kept.values())
    with progress.part("writing the weights", total) as advance:
        written = write_weights(weights, config, partial, advance)
    files = write_files(
        prepared.folder, source.tokenizer, config, main_dtype(written, config), partial
    )
    digests = {
        file.relative_to(partial).as_posix(): checkpoint.file_digest(file)
        for file in sorted(partial.rglob("*"))
        if file.is_file()
    }
    return WrittenFolder(partial, written, files, digests)


def _manifest(
    source: HandoffSource, prepared: PreparedSource, written: WrittenFolder, checked: CheckedFolder
) -> HandoffManifest:
    config = written.files.config
    return HandoffManifest(
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        digest=checkpoint.digest(written.folder),
        source=SourceFacts(
            kind=source.kind,
            path=str(source.path),
            digest=prepared.digest,
            base=str(source.base) if source.base else None,
            tokenizer=str(source.tokenizer),
            replaced_tokenizer=str(source.replaced_tokenizer or "") or None,
            step=source.step,
        ),
        run=run_facts(source.run) if source.run else None,
        architecture=", ".join(map(str, config.get("architectures") or ["unnamed"])),
        num_parameters=written.weights.num_entries,
        dtype=str(config["dtype"]),
        files={
            name: FileFacts(num_bytes=(written.folder / name).stat().st_size, sha256=one)
            for name, one in written.digests.items()
        },
        config_changes=written.files.config_changes,
        left_out=written.files.left_out,
        checks=tuple(checked.checks),
        versions=checked.versions,
    )
