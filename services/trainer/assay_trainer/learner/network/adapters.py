"""A LoRA adapter put into a loaded policy, by peft: the base is frozen, the adapter is trained.

On a GPU the base has the types that it is served in, or 4 bits. The adapter is float32 everywhere.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from assay_shared.errors import ConfigError
from assay_trainer.config import LoRAConfig
from assay_trainer.weights.adapter import ADAPTER
from assay_trainer.weights.served_dtype import copy_served_dtypes, served_dtype, served_dtypes

if TYPE_CHECKING:
    from peft import PeftModel

#: The adapter's configuration and seed, by which other ranks make the same one.
AdapterRecipe = tuple[LoRAConfig, int]
#: In a mixture, peft takes these names for its stacked experts, also where shared layers have them.
_EXPERTS = {"gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"}
_ATTRIBUTE = "assay_adapter_recipe"


def check_lora(lora: LoRAConfig | None) -> None:
    """Check that this machine can train the adapter.

    Raises:
        ConfigError: nf4 is asked for, and CUDA or bitsandbytes is missing.
    """
    if lora is None or not lora.nf4:
        return
    field = "policy.lora.nf4"
    if not torch.cuda.is_available():
        raise ConfigError("nf4 needs CUDA: set it to false on this machine", field=field)
    if find_spec("bitsandbytes") is None:
        hint = "pip install 'assay-rl[nf4]'"
        raise ConfigError("nf4 needs bitsandbytes", field=field, hint=hint)


def add_adapter(
    model: PreTrainedModel, lora: LoRAConfig, seed: int, device: torch.device
) -> "PeftModel":
    """Return the model in peft's wrapper, with a new adapter that adds nothing yet.

    `model` itself gets the adapter, unless its weights are to have 4 bits: it is loaded again then.

    Raises:
        ConfigError: the model lacks one of the named layers.
    """
    from peft import LoraConfig, get_peft_model

    check_targets(model, lora)
    if lora.nf4:
        model = _load_nf4(model, device)
    dtypes = served_dtypes(model)
    asked = LoraConfig(
        task_type="CAUSAL_LM",
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=_targets(model, lora),
        fan_in_fan_out=any(isinstance(one, Conv1D) for one in model.modules()),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wrapped: PeftModel = get_peft_model(model, asked, adapter_name=ADAPTER)
    if model.name_or_path and (base := Path(model.name_or_path)).is_dir():
        # Readers of the adapter's folder may run elsewhere.
        wrapped.peft_config[ADAPTER].base_model_name_or_path = str(base.resolve())
    setattr(model, _ATTRIBUTE, (lora, seed))
    if device.type == "cuda":
        for name, weight in model.named_parameters():
            if not weight.requires_grad and not lora.nf4:
                weight.data = weight.data.to(
                    dtypes.get(name.replace(".base_layer", ""), weight.dtype)
                )
        wrapped.to(device)
    setattr(model, "is_loaded_in_4bit", False)  # noqa: B010  # else TRL trains the adapter in 16 bits
    return wrapped


def has_own_types(lora: LoRAConfig | None, device: torch.device) -> bool:
    """Return True for a base in its served types: under an adapter on a GPU."""
    return lora is not None and device.type == "cuda"


def recipe_of(model: PreTrainedModel) -> AdapterRecipe | None:
    """Return how the model's adapter was made; None if it has none."""
    found: AdapterRecipe | None = getattr(model, _ATTRIBUTE, None)
    return found


def check_targets(model: PreTrainedModel, lora: LoRAConfig) -> None:
    """Check that the model has the named layers, and that one is large enough for the rank.

    Raises:
        ConfigError: it lacks one of them, or every one has a side shorter than the rank.
    """
    known = _linear_layers(model)
    unknown = set() if isinstance(lora.targets, str) else set(lora.targets) - known
    if unknown:
        raise ConfigError(
            f"the model has no linear layer {min(unknown)}: it has {', '.join(sorted(known))}",
            field="policy.lora.targets",
        )
    chosen = set(_targets(model, lora))
    most = max(
        (
            min(one.weight.shape)
            for name, one in model.named_modules()
            if name.rpartition(".")[2] in chosen and isinstance(one, (torch.nn.Linear, Conv1D))
        ),
        default=lora.rank,
    )
    if lora.rank > most:
        raise ConfigError(
            f"no layer's change can have a rank above {most}, its shorter side",
            field="policy.lora.rank",
            hint=f"set it to {most} or less",
        )


def _linear_layers(model: PreTrainedModel) -> set[str]:
    """Return the last names of the linear layers but the head, and but those of experts."""
    head = model.get_output_embeddings()
    found = {
        name.rpartition(".")[2]
        for name, one in model.named_modules()
        if isinstance(one, (torch.nn.Linear, Conv1D)) and one is not head
    }
    has_stacked_experts = any(one.ndim == 3 for one in model.parameters())
    return found - _EXPERTS if has_stacked_experts else found


def _targets(model: PreTrainedModel, lora: LoRAConfig) -> list[str]:
    """Return the names of the layers that get an adapter.

    Peft's own `all-linear` takes the stacked experts and routers of a mixture too, which no engine
    serves with an adapter.
    """
    found = _linear_layers(model) if isinstance(lora.targets, str) else lora.targets
    return sorted(found)


def _load_nf4(model: PreTrainedModel, device: torch.device) -> PreTrainedModel:
    """Return the model of the same folder with its linear layers in 4 bits."""
    from transformers import BitsAndBytesConfig

    dtype = served_dtype(model)
    found: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        Path(model.name_or_path or ""),
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=dtype,
        device_map={"": device},
        quantization_config=BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        ),
    )
    copy_served_dtypes(model, found)
    return found
