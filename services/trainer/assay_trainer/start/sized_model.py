"""The sizes of a model without its weights: from its config.json, or guessed from its name."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
)

from assay_shared.errors import ConfigError, NotFound, Unreachable
from assay_shared.settings.run_file import from_home
from assay_trainer.hub import download, resolve
from assay_trainer.learner.network.context import context_of
from assay_trainer.table_source import check_repository_name
from assay_trainer.weights.served_dtype import keep_served_dtypes

_BILLIONS = re.compile(r"(?:^|[-_./])(\d{1,4}(?:\.\d{1,3})?)([bm])(?:$|[-_.])", re.IGNORECASE)
#: Usual shapes by billions of weights: hidden, layers, intermediate, heads, key-value heads.
_SHAPES = {
    0.5: (896, 24, 4864, 14, 2),
    1.5: (1536, 28, 8960, 12, 2),
    3.0: (2048, 36, 11008, 16, 2),
    4.0: (2560, 36, 9728, 32, 8),
    7.0: (3584, 28, 18944, 28, 4),
    14.0: (5120, 48, 13824, 40, 8),
    32.0: (5120, 64, 27648, 40, 8),
    70.0: (8192, 80, 29568, 64, 8),
}
_VOCABULARY, _CONTEXT = 151_936, 32_768


@dataclass(frozen=True)
class SizedModel:
    """A model on no device, with its name and how its sizes are known."""

    name: str
    #: Whether `name` is of a hub.
    is_hub: bool
    model: PreTrainedModel
    known_by: str

    @property
    def num_weights(self) -> int:
        """Return the number of weights."""
        return int(self.model.num_parameters())

    @property
    def size_told(self) -> str:
        """Return the number of weights in words."""
        number = self.num_weights
        return f"{number / 1e9:.2f} billion" if number >= 1e9 else f"{number / 1e6:.1f} million"

    @property
    def context(self) -> int:
        """Return the tokens of the context."""
        return context_of(self._text) or _CONTEXT

    @property
    def cache_bytes_per_token(self) -> int:
        """Return the bytes of keys and values of a token, in 16 bits."""
        text = self._text
        heads = int(text.num_attention_heads)
        width = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
        kept = int(getattr(text, "num_key_value_heads", None) or heads)
        return 2 * 2 * int(text.num_hidden_layers) * kept * width

    @property
    def _text(self) -> Any:
        return self.model.config.get_text_config()


def size_model(name: str) -> SizedModel:
    """Return a model's sizes, by a folder or by the name of a hub's model.

    Raises:
        NotFound: there is no such folder or model.
        ConfigError: the folder has no usable config.json, or the name tells no size.
    """
    folder = from_home(Path(name), "--model")
    if folder.is_dir():
        known_by = f"{folder / 'config.json'}"
        return SizedModel(str(folder.resolve()), False, _empty(_config(folder)), known_by)
    try:
        check_repository_name(name)
    except ValueError as error:
        message = f"there is no folder {name!r:.200}, and a hub's name {error}"
        raise NotFound(message, field="--model") from None
    if name.startswith(("/", "./", "../", "~")):
        raise NotFound(f"there is no folder {name}", field="--model")
    try:
        commit = resolve("model", name, None)
        config = _config(download(commit, ["config.json"]))
        return SizedModel(name, True, _empty(config), f"config.json of {commit}")
    except (Unreachable, NotFound) as error:
        if isinstance(error, NotFound) and not constants.is_offline_mode():
            raise
        return _guessed(name)


def _config(folder: Path) -> PretrainedConfig:
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} has no config.json", field="--model")
    try:
        found: PretrainedConfig = AutoConfig.from_pretrained(folder)
    except (ValueError, OSError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"{folder} cannot be used: {reason}", field="--model") from None
    return found


def _guessed(name: str) -> SizedModel:
    found = _BILLIONS.search(name)
    if found is None:
        raise ConfigError(
            f"the hub cannot be reached, and {name} has no size in its name",
            field="--model",
            hint="name the folder of a download, or a model such as owner/name-7B",
        )
    billions = float(found[1]) / (1 if found[2].lower() == "b" else 1000)
    told = f"guessed from {found[1]}{found[2].upper()} in its name, as the hub cannot be reached"
    return SizedModel(name, True, _empty(_shape(billions)), told)


def _shape(billions: float) -> PretrainedConfig:
    """Return the nearest usual shape, with the layers that make up the number of weights."""
    nearest = min(_SHAPES, key=lambda size: abs(size / billions - 1))
    hidden, layers, intermediate, heads, kept = _SHAPES[nearest]
    layers = max(1, round(layers * billions / nearest))
    return Qwen2Config(
        vocab_size=_VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=kept,
        tie_word_embeddings=nearest < 7,
        max_position_embeddings=_CONTEXT,
    )


def _empty(config: PretrainedConfig) -> PreTrainedModel:
    """Return a model without memory, in the types of its checkpoint."""
    dtype = getattr(config, "dtype", None) or torch.bfloat16
    try:
        with torch.device("meta"):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"no causal language model: {reason}", field="--model") from None
    keep_served_dtypes(model)
    return model
