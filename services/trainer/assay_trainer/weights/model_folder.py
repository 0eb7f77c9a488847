"""A check of the folder of a model that a user names, before anything is loaded."""

import json
from pathlib import Path

from assay_shared.errors import InvalidInput, NotFound, WeightsRefused
from assay_shared.weights import checkpoint
from assay_shared.weights.safetensors import check_types, read_header


def check_folder(folder: Path) -> None:
    """Check that the folder has a configuration and weights in safetensors. Reads headers alone.

    Raises:
        NotFound: it has no configuration.
        InvalidInput: it has a LoRA adapter; or its weights are missing, ambiguous, cut off, or
            integers without a configuration that says what they mean.
    """
    _refuse_adapter(folder)
    file = folder / "config.json"
    if not file.is_file():
        raise NotFound(f"there is no model in {folder}: it has no config.json")
    try:
        config = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise InvalidInput(f"{file} is not a JSON object")
    try:
        for weights in checkpoint.weight_files(folder):
            check_types(folder, config, read_header(weights))
    except WeightsRefused as error:
        raise InvalidInput(error.message, hint=error.hint) from None


def _refuse_adapter(folder: Path) -> None:
    file = folder / checkpoint.ADAPTER_CONFIG
    if not file.is_file():
        return
    if any((folder / name).is_file() for name in (checkpoint.WEIGHTS, checkpoint.INDEX)):
        raise InvalidInput(
            f"{folder} has a model and a LoRA adapter: both would be loaded as one",
            hint=f"move {file.name} and {checkpoint.ADAPTER_WEIGHTS} out of the folder",
        )
    try:
        base = json.loads(file.read_bytes()).get("base_model_name_or_path")
    except (ValueError, AttributeError):
        base = None
    of_base = f"of {base}" if base else f"whose base {file.name} does not name"
    raise InvalidInput(
        f"{folder} is not a whole model: it is a LoRA adapter {of_base}",
        hint=f"merge it with `assay handoff {folder} --base BASE --output MERGED`, where BASE is "
        "the folder of its base, and give the folder MERGED",
    )
