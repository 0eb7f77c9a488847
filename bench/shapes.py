"""Writes checkpoints of random weights in the shapes of known models, without any download.

python bench/shapes.py 0.5b /dev/shm/qwen-0.5b --device cuda
"""

import argparse
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LONGEST_PIECE = 8
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@dataclass(frozen=True)
class Shape:
    """The sizes of a Qwen2, as in its config.json."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    vocabulary_size: int
    is_tied: bool


SHAPES = {
    "tiny": Shape(128, 256, 2, 2, 1, 1024, True),
    "0.36b": Shape(896, 4864, 24, 14, 2, 16_384, True),
    "0.5b": Shape(896, 4864, 24, 14, 2, 151_936, True),
    "1.5b": Shape(1536, 8960, 28, 12, 2, 151_936, True),
    "7b": Shape(3584, 18_944, 28, 28, 4, 152_064, False),
    "14b": Shape(5120, 13_824, 48, 40, 8, 152_064, False),
}


def config_of(shape: Shape) -> Qwen2Config:
    """Return the configuration of a shape, in bf16 with a context of 4096."""
    return Qwen2Config(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        max_position_embeddings=4096,
        tie_word_embeddings=shape.is_tied,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
        dtype=torch.bfloat16,
    )


def tokenizer_of(shape: Shape) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer with random merges, sized for the shape's vocabulary."""
    tokens = [*_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    pieces, merges, rng = tokens[len(_SPECIAL) :], [], random.Random(0)
    while len(vocabulary) < shape.vocabulary_size - 256:
        left, right = rng.choice(pieces), rng.choice(pieces)
        merged = left + right
        if merged not in vocabulary:
            vocabulary[merged] = len(vocabulary)
            merges.append((left, right))
            if len(merged) <= _LONGEST_PIECE // 2:
                pieces.append(merged)
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def make_model(shape: Shape, device: str, seed: int = 0) -> torch.nn.Module:
    """Return a model with random weights, created on `device`."""
    torch.manual_seed(seed)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config_of(shape), dtype=torch.bfloat16)


def write(name: str, folder: Path, device: str = "cpu", seed: int = 0) -> None:
    """Write a checkpoint with weights and tokenizer to `folder`."""
    shape = SHAPES[name]
    make_model(shape, device, seed).save_pretrained(folder)
    tokenizer_of(shape).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began = time.perf_counter()
    write(asked.shape, asked.folder, asked.device, asked.seed)
    num_bytes = sum(file.stat().st_size for file in asked.folder.glob("*.safetensors"))
    print(json.dumps({"bytes": num_bytes, "seconds": round(time.perf_counter() - began, 1)}))


if __name__ == "__main__":
    main()
