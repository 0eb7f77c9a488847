"""Conversion of weights from pickles to safetensors.

A pickle may run its author's code. A separate process (`convert_child.py`) opens it, as tensors
only, without secrets in its environment, and confined as far as the system allows.
"""

from pathlib import Path

from assay_inference.weights.safetensors import check_finite, read_layout
from assay_shared.errors import Conflict, InvalidInput, WeightsRefused
from assay_shared.runtime.confinement import run_confined
from assay_shared.weights import checkpoint

#: Files taken over as they are.
_KEPT = (".json", ".txt", ".model", ".tiktoken", ".jinja")
_CHILD = "assay_inference.weights.convert_child"


def convert(folder: Path, into: Path, limit_s: float) -> str:
    """Write a checkpoint with the weights of `folder` as safetensors.

    This process does not load the weights.

    Args:
        folder: has config.json and pytorch_model.bin, or its index and its shards.
        into: a folder that does not exist yet.
        limit_s: processor time for reading and writing.

    Returns:
        The new checkpoint's digest.

    Raises:
        InvalidInput: `folder` has no such files.
        Conflict: `into` exists.
        WeightsRefused: the pickles hold more than tensors, or cannot be read, or have entries that
            are infinite or not a number.
    """
    if not (folder / "config.json").is_file() or not any(folder.glob("pytorch_model*.bin")):
        raise InvalidInput(
            f"{folder} has no config.json together with pytorch_model*.bin", field="folder"
        )
    checkpoint.refuse_devices(folder)
    _refuse_links_out(folder.resolve())
    if into.exists():
        raise Conflict(f"{into} exists", field="into")

    def write(partial: Path) -> dict[str, str]:
        for file in folder.iterdir():
            is_kept = file.suffix in _KEPT and file.name != "pytorch_model.bin.index.json"
            if is_kept and file.is_file():
                (partial / file.name).write_bytes(file.read_bytes())
        places = (str(folder.resolve()), str(partial.resolve()))
        run_confined(_CHILD, places, limit_s, refusal=f"{folder} cannot be converted")
        check_finite(read_layout(partial))
        files = checkpoint.weight_files(partial)
        return {file.name: checkpoint.file_digest(file) for file in files}

    return checkpoint.publish(into, write)


def _refuse_links_out(folder: Path) -> None:
    """Refuse links to files elsewhere, but for those of Hugging Face's cache to its blobs."""
    places = [folder]
    if folder.parent.name == "snapshots":
        places.append(folder.parent.parent / "blobs")
    for file in folder.iterdir():
        if not any(file.resolve().is_relative_to(place) for place in places):
            raise WeightsRefused(f"{file} is a link out of the folder")
