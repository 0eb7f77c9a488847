"""All checks of a written folder, in order."""

from dataclasses import dataclass
from pathlib import Path

from assay_trainer.handoff.checks import engines, folder, texts
from assay_trainer.handoff.checks.check import HandoffCheck
from assay_trainer.handoff.engines.answers import FolderAccount
from assay_trainer.handoff.engines.fresh import AskedFolder, Asking, NotLoaded, ask_transformers
from assay_trainer.handoff.order import HandoffOrder
from assay_trainer.handoff.progress import HandoffProgress
from assay_trainer.handoff.sources.source import HandoffSource, PreparedSource, SourceKind
from assay_trainer.handoff.writing.files import CopiedFiles
from assay_trainer.handoff.writing.tensors import WrittenWeights

_COMPARED_WITH = {
    SourceKind.FOLDER: "the source",
    SourceKind.ADAPTER: "the base with the adapter on top, by peft",
    SourceKind.SHARDS: "the gathered shards",
    SourceKind.STATE: "the checkpoint's weights",
}


@dataclass(frozen=True)
class WrittenFolder:
    """The output folder without its manifest, and the SHA-256 of each file on the disk."""

    folder: Path
    weights: WrittenWeights
    files: CopiedFiles
    digests: dict[str, str]


@dataclass(frozen=True)
class CheckedFolder:
    """The checks, and the versions of the libraries that loaded the folder."""

    checks: list[HandoffCheck]
    versions: dict[str, str]


def check_folder(
    order: HandoffOrder,
    source: HandoffSource,
    prepared: PreparedSource,
    written: WrittenFolder,
    asking: Asking,
    progress: HandoffProgress,
) -> CheckedFolder:
    """Return the verdicts of all checks; without transformers, only those of the files."""
    checks = [
        folder.written_files(written.digests, written.weights.digests),
        folder.finite_weights(written.weights),
    ]
    try:
        with progress.part("answers of the folder", len(asking.prompts)) as advance:
            asked = AskedFolder(written.folder, written.folder)
            found = ask_transformers(asked, asking, lambda: advance(1))
    except NotLoaded as error:
        return CheckedFolder([*checks, engines.not_loaded(str(error))], {})
    checks += [
        engines.loading(found),
        folder.architecture(written.files.config, found),
        folder.parameters(found, written.weights, written.files.config),
        folder.vocabulary(written.files.config, found),
        texts.special_tokens(found),
        texts.end_tokens(found),
        texts.generation_settings(found),
        *_against_source(source, prepared, written, asking, found, progress),
        texts.stopping(found, order.min_stopping, is_asked=order.prompts is not None),
    ]
    with progress.part("Assay's own engine"):
        checks.append(engines.own_engine(written.folder, found, asking, order.tie_nats))
    with progress.part("vLLM"):
        checks.append(engines.vllm(written.folder, found, asking, order.tie_nats, order.vllm))
    return CheckedFolder(checks, found.versions)


def _against_source(
    source: HandoffSource,
    prepared: PreparedSource,
    written: WrittenFolder,
    asking: Asking,
    found: FolderAccount,
    progress: HandoffProgress,
) -> list[HandoffCheck]:
    """Return the checks against the source; an adapter is loaded on top of its base."""
    is_adapter = source.kind is SourceKind.ADAPTER
    original = source.base if is_adapter and source.base else prepared.folder
    asked = AskedFolder(
        original,
        source.own_tokenizer,
        source.path if is_adapter else None,
        unquantized="quantization_config" not in written.files.config,
    )
    try:
        with progress.part("answers of the source", len(asking.prompts)) as advance:
            before = ask_transformers(asked, asking, lambda: advance(1))
    except NotLoaded as error:
        return [texts.template(None, found), engines.not_compared(str(error))]
    same = engines.same_as_source(
        before,
        found,
        is_rounded=is_adapter or written.weights.is_rounded,
        compared_with=_COMPARED_WITH[source.kind],
    )
    return [texts.template(before, found), same]
