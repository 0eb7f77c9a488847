"""A run's checkpoints as folders that inference can serve."""

import warnings
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.run_file import parse_config
from assay_shared.weights import checkpoint as weights
from assay_trainer.config import RunConfig
from assay_trainer.evaluate.policy.places import STAGES, PolicyPlace
from assay_trainer.learner import checkpoint

_SHARDS, _ADAPTER = ".metadata", weights.ADAPTER_WEIGHTS


def servable_folder(place: PolicyPlace, scratch: Path) -> Path:
    """Return a folder with the whole weights of a policy; written to `scratch` if need be.

    A checkpoint of GRPO holds shards of the trained weights, and one of LoRA the adapter alone:
    the rest is in the model of the stage before.

    Raises:
        WeightsRefused: the checkpoint, or a stage's model, is not as it was written.
    """
    if place.run is None or place.step is None:
        checkpoint.check_if_sealed(place.folder)
        return place.folder
    checkpoint.check(place.folder)
    if not (place.folder / _SHARDS).exists() and not (place.folder / _ADAPTER).exists():
        return place.folder
    folder = scratch / place.label
    _write(place, folder)
    return folder


def _write(place: PolicyPlace, folder: Path) -> None:
    """Write the model of the stage before, with the checkpoint's weights in it."""
    from assay_trainer.learner.network.adapters import add_adapter
    from assay_trainer.learner.network.model import load_policy
    from assay_trainer.weights.adapter import bare
    from assay_trainer.weights.folder import publish_policy

    assert place.run is not None
    before = _before(place)
    checkpoint.check_if_sealed(before)
    lora = _run_config(place.run).policy.lora
    model, tokenizer = load_policy(before)
    trained: Any = model
    if lora is not None:
        import torch

        without_dropout = lora.model_copy(update={"dropout": 0.0})
        trained = add_adapter(model, without_dropout, 0, torch.device("cpu"))
    load_trained(bare(trained), place.folder)
    publish_policy(bare(trained), tokenizer, folder)


def _run_config(run: RunFolder) -> RunConfig:
    values = run.read_config()["config"]
    return parse_config(RunConfig, values, source=str(run.config))


def _before(place: PolicyPlace) -> Path:
    """Return the folder of the model that the stage began with."""
    assert place.run is not None
    models = place.run.path / "models"
    earlier = STAGES[: STAGES.index(place.stage)]
    return next(models / one for one in reversed(earlier) if (models / one).is_dir())


def load_trained(model: Any, folder: Path) -> None:
    """Read the trained weights of a checkpoint into the model."""
    import torch
    from safetensors.torch import load_file
    from torch.distributed.checkpoint.state_dict_loader import load

    named = {name: one.detach() for name, one in model.named_parameters() if one.requires_grad}
    assert named, "a trained model has trained weights"
    if (folder / _SHARDS).exists():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            load({"weights": named}, checkpoint_id=folder, no_dist=True)
        return
    stored = load_file(folder / _ADAPTER)
    with torch.no_grad():
        for name, one in named.items():
            key = f"base_model.model.{name}".replace(".default.weight", ".weight")
            one.copy_(stored[key])
