"""The process, started by `convert.py`, that writes pickled tensors as safetensors.

`python -m assay_inference.weights.convert_child FOLDER INTO LIMIT_S`. Before a file is opened, the
process is confined.
"""

import json
import sys
import zipfile
from pathlib import Path

from assay_shared.runtime.confinement import confine

_INDEX = "pytorch_model.bin.index.json"


def main() -> None:
    """Convert all shards, and write an index of them."""
    folder, into, limit_s = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    confine(limit_s, into)
    files = _shards(folder)
    placed: dict[str, str] = {}
    size = 0
    for number, file in enumerate(files, 1):
        name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
        if len(files) == 1:
            name = "model.safetensors"
        names, num_bytes = _convert(file, into / name)
        placed |= dict.fromkeys(names, name)
        size += num_bytes
    if len(files) > 1:
        index = {"metadata": {"total_size": size}, "weight_map": placed}
        (into / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def _shards(folder: Path) -> list[Path]:
    """Return the files named by the index, or the only file; in order."""
    if not (folder / _INDEX).is_file():
        return [folder / "pytorch_model.bin"]
    names = set(json.loads((folder / _INDEX).read_bytes())["weight_map"].values())
    for name in names:
        if "/" in name or not name.endswith(".bin"):
            raise SystemExit(f"{_INDEX} names {name!r}: only files in the same folder are read")
    return sorted(folder / name for name in names)


def _convert(file: Path, into: Path) -> tuple[list[str], int]:
    """Convert a file; return the names of its tensors, and their number of bytes."""
    import torch
    from safetensors.torch import save_file

    # torch before 1.6 wrote no zip archives, and only these can be mapped.
    is_mapped = zipfile.is_zipfile(file)
    content = torch.load(file, map_location="cpu", weights_only=True, mmap=is_mapped)
    if not isinstance(content, dict):
        raise SystemExit(f"{file.name} holds no tensors by name")
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise SystemExit(f"{file.name} holds more than tensors: {name!r:.100}")
    # Tensors may share memory in the pickle: write each as a separate copy.
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in content.items()}
    save_file(tensors, into, metadata={"format": "pt"})
    into.chmod(0o644)  # a service of another user reads it
    return list(tensors), sum(tensor.nbytes for tensor in tensors.values())


if __name__ == "__main__":
    main()
