"""Shards in the layout of verl's checkpoints, written by real ranks of torch.

`python -m tests.support.verl_shards MODEL OUTPUT NUM_RANKS`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch.multiprocessing.spawn import spawn

_LIMIT_S = 120


def write_shards(model: Path, output: Path, num_ranks: int = 2) -> Path:
    """Shard a model's weights over gloo ranks, and write each rank's; return the folder."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.verl_shards",
            str(model),
            str(output),
            str(num_ranks),
        ],
        check=True,
        timeout=_LIMIT_S,
        capture_output=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    named = output / "huggingface"
    named.mkdir()
    for file in model.iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copyfile(file, named / file.name)
    return output


def _write(rank: int, model: str, output: str, num_ranks: int) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from transformers import AutoModelForCausalLM

    store = f"file://{output}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=num_ranks)
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    mesh = init_device_mesh("cpu", (num_ranks,), mesh_dim_names=("fsdp",))
    for layer in loaded.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(loaded, mesh=mesh)
    name = f"model_world_size_{num_ranks}_rank_{rank}.pt"
    torch.save(loaded.state_dict(), Path(output) / name)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True)
    spawn(_write, (sys.argv[1], sys.argv[2], int(sys.argv[3])), nprocs=int(sys.argv[3]))
    (Path(sys.argv[2]) / "store").unlink(missing_ok=True)
