"""The files next to the weights: configurations, tokenizer, chat template."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.errors import WeightsRefused

_CONFIG, _GENERATION = "config.json", "generation_config.json"
#: Entries that a training leaves in config.json, and that no reader needs.
_LEFTOVERS = frozenset(
    (
        *("_name_or_path", "_commit_hash", "_attn_implementation", "_attn_implementation_internal"),
        *("gradient_checkpointing", "attn_implementation", "torch_dtype", "unsloth_version"),
        *("unsloth_fixed", "use_liger_kernel", "_attn_implementation_autoset"),
    )
)
_QUANTIZED_WHILE_TRAINED = "bitsandbytes"
_END_FIELDS = ("bos_token_id", "eos_token_id", "pad_token_id")
#: Files of tokenizers and templates, as the libraries name them.
_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "vocab.txt", "*.model", "*.tiktoken"),
    *("chat_template.jinja", "chat_template.json", "additional_chat_templates/*.jinja"),
    *("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"),
)


@dataclass(frozen=True)
class CopiedFiles:
    """The files next to the weights, what was changed in config.json, and what was left out."""

    config: dict[str, Any]
    config_changes: tuple[str, ...]
    copied: tuple[str, ...]
    left_out: tuple[str, ...]


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of config.json.

    Raises:
        WeightsRefused: it is not a JSON object, or names code of the model's author.
    """
    file = folder / _CONFIG
    try:
        config = json.loads(file.read_bytes())
    except ValueError as error:
        raise WeightsRefused(f"{file} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise WeightsRefused(f"{file} is not a JSON object")
    if "auto_map" in config:
        raise WeightsRefused(
            f"{file} has auto_map: the model needs code of its author, which is not run",
            hint="use an architecture of transformers",
        )
    return config


def clean_config(config: Mapping[str, Any], dtype: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return config.json without what a training leaves in it, and a line for each change."""
    changes: list[str] = []
    found = _without_leftovers(config, "", changes)
    if found.get("use_cache") is False:
        found["use_cache"] = True
        changes.append("use_cache set to true")
    quantization: Any = found.get("quantization_config") or {}
    if quantization.get("quant_method") == _QUANTIZED_WHILE_TRAINED:
        del found["quantization_config"]
        changes.append("quantization_config removed")
    before = config.get("dtype", config.get("torch_dtype"))
    found["dtype"] = dtype
    if before != dtype:
        changes.append(f"dtype set to {dtype}, which the weights have (it was {before})")
    return found, tuple(changes)


def _without_leftovers(
    config: Mapping[str, Any], prefix: str, changes: list[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        if name in _LEFTOVERS:
            if name != "torch_dtype":
                changes.append(f"{prefix}{name} removed")
        elif isinstance(value, dict) and name.endswith("_config"):
            found[name] = _without_leftovers(value, f"{prefix}{name}.", changes)
        else:
            found[name] = value
    return found


def write_files(
    config_from: Path, tokenizer_from: Path, config: Mapping[str, Any], dtype: str, into: Path
) -> CopiedFiles:
    """Write config.json and generation_config.json, and copy the tokenizer's files."""
    cleaned, changes = clean_config(config, dtype)
    _write_json(into / _CONFIG, cleaned)
    generation = config_from / _GENERATION
    if generation.is_file():
        shutil.copyfile(generation, into / _GENERATION)
    else:
        text: Any = cleaned.get("text_config") or {}
        ends = {name: cleaned.get(name, text.get(name)) for name in _END_FIELDS}
        named = {name: value for name, value in ends.items() if value is not None}
        _write_json(into / _GENERATION, {"_from_model_config": True, **named})
        changes = (*changes, "generation_config.json made from it")
    copied = [_CONFIG, _GENERATION, *_copy_tokenizer(tokenizer_from, into)]
    everything = {file.name for place in (config_from, tokenizer_from) for file in place.iterdir()}
    left_out = sorted(
        name
        for name in everything - {name.partition("/")[0] for name in copied}
        if not name.endswith(".safetensors") and not name.endswith(".safetensors.index.json")
    )
    return CopiedFiles(cleaned, changes, tuple(sorted(copied)), tuple(left_out))


def _copy_tokenizer(folder: Path, into: Path) -> list[str]:
    copied = []
    for pattern in _TOKENIZER_FILES:
        for file in sorted(folder.glob(pattern)):
            name = file.relative_to(folder).as_posix()
            (into / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, into / name)
            copied.append(name)
    return copied


def _write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
