"""A checkpoint made into a folder of safetensors: gathered, or merged with its base."""

import hashlib
import shutil
from pathlib import Path

from assay_shared.errors import ConfigError, WeightsRefused
from assay_shared.runtime.confinement import run_confined
from assay_shared.weights import checkpoint
from assay_shared.weights.adapter import merge
from assay_trainer.handoff.sources.recognise import shard_files
from assay_trainer.handoff.sources.source import HandoffSource, PreparedSource, SourceKind
from assay_trainer.handoff.writing.tensors import read_weights
from assay_trainer.learner.checkpoint import file_digests

_CHILD = "assay_trainer.handoff.sources.gather_child"


def prepare(source: HandoffSource, scratch: Path, limit_s: float) -> PreparedSource:
    """Return the checkpoint as a folder of safetensors; only a folder's own is not in `scratch`.

    Args:
        scratch: an empty folder, on the disk of the output.
        limit_s: processor time for gathering shards.

    Raises:
        WeightsRefused: the files are damaged, hold more than weights, or do not fit together.
    """
    match source.kind:
        case SourceKind.FOLDER:
            return PreparedSource(source.path, checkpoint.digest(source.path))
        case SourceKind.ADAPTER:
            assert source.base is not None
            read_weights(source.base, None)  # a base that is cut off is told by its file
            merge(source.base, source.path, scratch / "merged")
            digest = checkpoint.adapter_digest(source.path, checkpoint.digest(source.base))
            return PreparedSource(scratch / "merged", digest)
        case SourceKind.SHARDS:
            folder = _gathered(source, scratch, "shards", limit_s)
            shutil.copyfile(source.config / "config.json", folder / "config.json")
            generation = source.config / "generation_config.json"
            if generation.is_file():
                shutil.copyfile(generation, folder / generation.name)
            names = {file.name: checkpoint.file_digest(file) for file in shard_files(source.path)}
            return PreparedSource(folder, _digest_of(names))
        case SourceKind.STATE:
            gathered = _gathered(source, scratch, "state", limit_s)
            _put_into_base(source, gathered, scratch / "model")
            return PreparedSource(scratch / "model", _digest_of(file_digests(source.path)))


def _gathered(source: HandoffSource, scratch: Path, kind: str, limit_s: float) -> Path:
    folder = scratch / "gathered"
    folder.mkdir()
    places = (str(source.path.resolve()), str(folder.resolve()), kind)
    run_confined(_CHILD, places, limit_s, refusal=f"{source.path} cannot be read")
    return folder


def _put_into_base(source: HandoffSource, gathered: Path, into: Path) -> None:
    """Write the model that GRPO began with, with the weights of a checkpoint."""
    import torch
    from safetensors import safe_open

    from assay_trainer.learner.network.adapters import add_adapter
    from assay_trainer.learner.network.model import load_policy
    from assay_trainer.service.record import open_run
    from assay_trainer.weights.folder import publish_policy

    assert source.base is not None
    assert source.run is not None
    _, config = open_run(source.run)
    model, tokenizer = load_policy(source.base)
    lora = config.policy.lora
    if lora is not None:
        if lora.nf4 and not torch.cuda.is_available():
            raise ConfigError(f"{source.path} was trained in 4 bits (nf4): it needs CUDA here too")
        add_adapter(model, lora, config.seed, torch.device("cpu"))
    weights = dict(model.named_parameters())
    trained = {name for name, one in weights.items() if one.requires_grad}
    for file in sorted(gathered.glob("*.safetensors")):
        with safe_open(file, "pt") as content:
            for name in content.keys():  # noqa: SIM118  # not a dictionary
                value = content.get_tensor(name)
                if name not in weights or weights[name].shape != value.shape:
                    raise WeightsRefused(f"{source.path} has {name}, and {source.base} does not")
                weights[name].data.copy_(value)
                trained.discard(name)
    if trained:
        raise WeightsRefused(f"{source.path} lacks {min(trained)}")
    publish_policy(model, tokenizer, into)


def _digest_of(files: dict[str, str]) -> str:
    """Return the SHA-256 over the names and digests of files."""
    lines = (f"{name} {one}\n" for name, one in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
