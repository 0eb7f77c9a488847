"""The process, started by `prepare.py`, that writes pickled shards as safetensors.

`python -m assay_trainer.handoff.sources.gather_child FOLDER INTO KIND LIMIT_S`. KIND is `shards`
(verl's files, a DTensor for each weight) or `state` (a checkpoint of torch's, as GRPO writes it).
The process is confined before a file is opened, and a pickle may name a fixed list of classes.
"""

import io
import json
import math
import pickle
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.tensor import DTensor, Replicate, Shard

from assay_shared.runtime.confinement import confine
from assay_trainer.handoff.sources.recognise import shard_files

#: The most bytes of a written file.
_FILE_BYTES = 4 * 10**9
_SPARE_BYTES = 8 * 2**30
_WEIGHTS = "weights."
#: Parts of names that wrappers add.
_WRAPPERS = ("_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module.")
_OF_METADATA = (
    "torch.distributed.checkpoint.metadata",
    "torch.distributed.checkpoint.filesystem",
    "torch.distributed.checkpoint.storage",
)
_PLAIN = {
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("collections", "OrderedDict"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
    ("builtins", "set"),
}


class NotGathered(Exception):
    """The files hold something else than weights."""


class SafeReader(FileSystemReader):
    """A reader of torch's checkpoints whose metadata names known classes alone."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        content = (Path(self.path) / ".metadata").read_bytes()
        metadata = MetadataUnpickler(io.BytesIO(content)).load()
        if not isinstance(metadata, Metadata):
            raise NotGathered(".metadata holds no metadata of torch")
        return metadata


class MetadataUnpickler(pickle.Unpickler):
    """A reader of pickles that finds the classes of a checkpoint's metadata alone."""

    def find_class(self, module: str, name: str) -> Any:
        is_dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if (module in _OF_METADATA and "." not in name) or is_dtype or (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise NotGathered(f".metadata names {module}.{name}, which does not belong to a checkpoint")


def main() -> None:
    """Gather the weights and write them; end with a message if they cannot be read."""
    folder, into, kind, limit_s = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    files = shard_files(folder) if kind == "shards" else list(folder.rglob("*"))
    size = sum(file.stat().st_size for file in files)
    confine(int(limit_s), into, most_bytes=3 * size + _SPARE_BYTES)
    gathered = _gathered_shards(files) if kind == "shards" else _gathered_state(folder)
    try:
        _write(gathered, into)
    except pickle.UnpicklingError as error:
        # Torch's message ends with advice to read the file without checks.
        raise SystemExit(f"a pickle holds more than weights: {_first(error)}") from None
    except (NotGathered, RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise SystemExit(_first(error)) from None


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "GLOBAL" in line or "nsupported" in line]
    return (named or lines or [type(error).__name__])[0]


def _gathered_shards(files: list[Path]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each whole weight; the files are mapped, and one weight at a time is in memory."""
    ranks = []
    for file in files:
        if not zipfile.is_zipfile(file):
            raise NotGathered(f"{file.name} is cut off, or no file that torch wrote")
        try:
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise NotGathered(f"{file.name}: {_first(error)}") from None
        if not isinstance(content, dict):
            raise NotGathered(f"{file.name} holds no tensors by name")
        ranks.append(content)
    for number, one in enumerate(ranks):
        if different := sorted(map(str, ranks[0].keys() ^ one.keys())):
            raise NotGathered(f"{files[number].name}: {different[0]} is not in all ranks' files")
    if adapters := [name for name in ranks[0] if ".lora_A." in str(name)]:
        raise NotGathered(
            f"the shards hold a LoRA adapter ({adapters[0]}): hand off the folder "
            "lora_adapter next to them, with --base"
        )
    for name in ranks[0]:
        yield _plain_name(name), whole(str(name), [one[name] for one in ranks])


def _plain_name(name: object) -> str:
    if not isinstance(name, str):
        raise NotGathered(f"{name!r:.100} is not the name of a weight")
    for part in _WRAPPERS:
        name = name.replace(part, "")
    return name


def whole(name: str, parts: list[Any]) -> torch.Tensor:
    """Return a weight from the parts of all ranks, as they were.

    Ranks are in the row-major order of their mesh; with replicas, the first one's are taken.
    """
    if not all(isinstance(part, torch.Tensor) for part in parts):
        raise NotGathered(f"{name} is a {type(parts[0]).__name__}, not a tensor")
    first: torch.Tensor = parts[0]
    if not isinstance(first, DTensor):
        if any(isinstance(one, DTensor) or not torch.equal(first, one) for one in parts[1:]):
            raise NotGathered(f"{name} is not divided, and differs between ranks")
        return first
    placements, shape = first.placements, tuple(first.device_mesh.shape)
    divided = [axis for axis, one in enumerate(placements) if type(one) is Shard]
    others = [one for one in placements if type(one) not in (Shard, Replicate)]
    if others or len(divided) > 1 or math.prod(shape) != len(parts):
        raise NotGathered(
            f"{name} is divided as {placements} over a mesh of {shape}: only shards along one "
            f"axis, and replicas, are gathered, and there are {len(parts)} ranks"
        )
    if not divided:
        alone: torch.Tensor = first.to_local()
        return alone
    axis = divided[0]
    step = math.prod(shape[axis + 1 :])
    placement: Any = placements[axis]
    locals_ = [parts[step * one].to_local() for one in range(shape[axis])]
    found = torch.cat(locals_, dim=placement.dim)
    if found.shape != first.shape:
        raise NotGathered(f"{name} is {list(first.shape)}, and its shards make {list(found.shape)}")
    return found


def _gathered_state(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    reader = SafeReader(folder)
    for key, entry in sorted(reader.read_metadata().state_dict_metadata.items()):
        if key.startswith(_WEIGHTS) and isinstance(entry, TensorStorageMetadata):
            state = {key: torch.empty(entry.size, dtype=entry.properties.dtype)}
            load(state, storage_reader=SafeReader(folder), no_dist=True)
            yield key.removeprefix(_WEIGHTS), state[key]


def _write(tensors: Iterator[tuple[str, torch.Tensor]], into: Path) -> None:
    """Write files of some gigabytes, and the index that names them."""
    placed: dict[str, str] = {}
    held: dict[str, torch.Tensor] = {}
    size = total = 0

    def write_held() -> None:
        name = f"gathered-{len(set(placed.values())) + 1:05d}.safetensors"
        save_file(held, into / name, metadata={"format": "pt"})
        placed.update(dict.fromkeys(held, name))
        held.clear()

    for name, tensor in tensors:
        if held and size + tensor.nbytes > _FILE_BYTES:
            write_held()
            size = 0
        held[name] = tensor.detach().contiguous().clone()
        size, total = size + tensor.nbytes, total + tensor.nbytes
    if held:
        write_held()
    if not placed:
        raise NotGathered("the checkpoint has no weights")
    index = {"metadata": {"total_size": total}, "weight_map": placed}
    (into / "model.safetensors.index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    main()
