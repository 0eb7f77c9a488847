"""Recognition of a checkpoint by the files in its folder."""

import json
import re
from dataclasses import replace
from pathlib import Path

from assay_shared.errors import InvalidInput, NotFound, WeightsRefused
from assay_shared.weights.checkpoint import ADAPTER_CONFIG, INDEX, WEIGHTS, weight_files
from assay_trainer.handoff.sources.links import refuse_links_out
from assay_trainer.handoff.sources.source import HandoffSource, SourceKind
from assay_trainer.learner import checkpoint

_SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")
#: Stages of a run that leave a model, the last first.
_STAGES = ("grpo", "dpo", "sft")
_STATE = "assay.json"
_FORMS = (
    "a Hugging Face folder, a run, a GRPO checkpoint of a run, a LoRA adapter of peft, or the "
    "folder of model_world_size_N_rank_R.pt files with huggingface/ next to them"
)


def recognise(
    folder: Path, base: Path | None = None, tokenizer: Path | None = None
) -> HandoffSource:
    """Return what `folder` is.

    Args:
        base: the model of an adapter; without it, the one that the adapter names.
        tokenizer: a folder with the tokenizer, in place of the checkpoint's own.

    Raises:
        NotFound: there is no such folder, or no such base.
        InvalidInput: it is none of the forms.
        WeightsRefused: it is one of them, but files are missing or changed.
    """
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}", field="CHECKPOINT")
    for name, one in (("--base", base), ("--tokenizer", tokenizer)):
        if one is not None and not one.is_dir():
            raise NotFound(f"there is no folder {one}", field=name)
    refuse_links_out(folder)
    found = _by_files(folder, base)
    if base is not None and found.kind is not SourceKind.ADAPTER:
        raise InvalidInput(f"{folder} is a {found.kind}: it has no base", field="--base")
    found = _with_tokenizer(found, tokenizer)
    for place in {found.path, found.config, found.tokenizer, found.base or found.path}:
        refuse_links_out(place)
    return found


def _by_files(folder: Path, base: Path | None) -> HandoffSource:
    if _is_run(folder):
        return _newest_model(folder)
    if (folder / _STATE).is_file() and (folder / ".metadata").is_file():
        return _state(folder)
    for place in (folder, folder / "actor"):
        if place.is_dir() and any(_SHARD.fullmatch(file.name) for file in place.iterdir()):
            return _shards(place)
    has_weights = (folder / WEIGHTS).exists() or (folder / INDEX).exists()
    if (folder / ADAPTER_CONFIG).is_file() and not has_weights:
        return _adapter(folder, base)
    if (folder / "config.json").is_file() or has_weights:
        weight_files(folder)
        checkpoint.check_if_sealed(folder)
        return HandoffSource(SourceKind.FOLDER, folder, folder, folder, run=run_of(folder))
    content = "is empty" if not any(folder.iterdir()) else "has no config.json"
    raise InvalidInput(f"{folder} {content}: it is not {_FORMS}", field="CHECKPOINT")


def _is_run(folder: Path) -> bool:
    """Return True if config.json is a run's, and not a model's."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and {"config", "git_commit"} <= config.keys()


def run_of(folder: Path) -> Path | None:
    """Return the run's folder around a model or checkpoint; None outside of a run."""
    return next((one for one in list(folder.resolve().parents)[:3] if _is_run(one)), None)


def _newest_model(run: Path) -> HandoffSource:
    for stage in _STAGES:
        folder = run / "models" / stage
        if checkpoint.is_sealed(folder):
            checkpoint.check_seal(folder)
            return HandoffSource(SourceKind.FOLDER, folder, folder, folder, run=run)
    found = checkpoint.newest(run / "checkpoints" / "grpo")
    hint = f"name its newest GRPO checkpoint: {found[0]}" if found else "resume the run"
    raise InvalidInput(f"no stage of the run {run} has finished", field="CHECKPOINT", hint=hint)


def _state(folder: Path) -> HandoffSource:
    run = run_of(folder)
    if run is None:
        raise WeightsRefused(
            f"{folder} lies in no run: a GRPO checkpoint has the weights alone",
            hint="keep it in RUN/checkpoints/grpo, next to RUN/models",
        )
    checkpoint.check(folder)
    before = ("dpo", "sft", "initial")
    models = (run / "models" / stage for stage in before)
    base = next((one for one in models if checkpoint.is_sealed(one)), None)
    if base is None:
        raise WeightsRefused(f"{run} has no model that GRPO began with: models/initial is missing")
    checkpoint.check_seal(base)
    step = checkpoint.step_of(folder)
    return HandoffSource(SourceKind.STATE, folder, base, base, base, run, step)


def _shards(folder: Path) -> HandoffSource:
    named = folder / "huggingface"
    config = named if named.is_dir() else folder
    if not (config / "config.json").is_file():
        raise WeightsRefused(
            f"{folder} has shards, but no huggingface/config.json",
            hint="copy config.json and the tokenizer of the trained model into huggingface/",
        )
    shard_files(folder)
    match = re.search(r"(?:global_step_|step_|checkpoint-)(\d+)", str(folder.resolve()))
    step = int(match[1]) if match else None
    return HandoffSource(SourceKind.SHARDS, folder, config, config, step=step)


def shard_files(folder: Path) -> list[Path]:
    """Return the files of all ranks, in the order of the ranks.

    Raises:
        WeightsRefused: a rank's file is missing, or there are files of several world sizes.
    """
    found = {}
    sizes = set()
    for file in folder.iterdir():
        if match := _SHARD.fullmatch(file.name):
            sizes.add(int(match[1]))
            found[int(match[2])] = file
    if len(sizes) != 1:
        raise WeightsRefused(f"{folder} has shards of several world sizes: {sorted(sizes)}")
    (size,) = sizes
    for rank in range(size):
        if rank not in found:
            raise WeightsRefused(
                f"{folder} has no model_world_size_{size}_rank_{rank}.pt",
                hint=f"shards of all {size} ranks are needed",
            )
    return [found[rank] for rank in range(size)]


def _adapter(folder: Path, base: Path | None) -> HandoffSource:
    if base is None:
        base = _named_base(folder)
    weight_files(base)
    has_own = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model"))
    tokenizer = folder if has_own else base
    run = run_of(folder)
    return HandoffSource(SourceKind.ADAPTER, folder, base, tokenizer, base, run)


def _named_base(folder: Path) -> Path:
    """Return the base that an adapter's configuration names: a folder, or a model of the cache."""
    file = folder / ADAPTER_CONFIG
    try:
        named = json.loads(file.read_bytes()).get("base_model_name_or_path")
    except (ValueError, AttributeError) as error:
        raise WeightsRefused(f"{file} is not a JSON object: {error}") from None
    if not isinstance(named, str) or not named:
        raise InvalidInput(f"{file} names no base", field="--base", hint="give its folder")
    for place in (Path(named), folder / named):
        if place.is_dir():
            return place
    cached = _cached(named)
    if cached is None:
        raise InvalidInput(
            f"{file} names the base {named}, which is not on this machine",
            field="--base",
            hint="give the base's folder",
        )
    return cached


def _cached(name: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _with_tokenizer(found: HandoffSource, tokenizer: Path | None) -> HandoffSource:
    place = tokenizer or found.tokenizer
    if not has_tokenizer(place):
        raise InvalidInput(
            f"{place} has no tokenizer: no tokenizer.json, tokenizer.model or vocab.json",
            field="--tokenizer",
            hint="give a folder that has it",
        )
    is_replaced = has_tokenizer(found.tokenizer) and place.resolve() != found.tokenizer.resolve()
    replaced = found.tokenizer if is_replaced else None
    return replace(found, tokenizer=place, replaced_tokenizer=replaced)


def has_tokenizer(folder: Path) -> bool:
    """Return True if a folder has files of a tokenizer."""
    return any(folder.glob("tokenizer*")) or any(folder.glob("vocab*"))
