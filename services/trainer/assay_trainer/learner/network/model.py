"""The policy model: a small new model with its own tokenizer, or a model from a folder."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import InvalidInput
from assay_shared.text.listing import some_of
from assay_shared.weights.tensor_names import tensor_told
from assay_trainer.config import NewPolicyConfig
from assay_trainer.weights.model_folder import check_folder
from assay_trainer.weights.served_dtype import keep_served_dtypes

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

# A word with its space, each digit apart (so that numbers are copied digit by digit), an
# indentation with its line break, a run of signs.
_PIECES = r"\n *|\d| ?[A-Za-z_]+| ?[^\sA-Za-z0-9_]+| +"


def create_policy(
    config: NewPolicyConfig, texts: Iterable[str], seed: int
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Make a randomly initialised Qwen2, and a byte-level BPE tokenizer trained on `texts`."""
    tokenizer = train_tokenizer(texts, config.vocabulary_size)
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_heads,
            max_position_embeddings=config.context_length,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    return model, tokenizer


def train_tokenizer(texts: Iterable[str], vocabulary_size: int) -> PreTrainedTokenizerBase:
    """Train a byte-level BPE with the special tokens of `CHAT_TEMPLATE`."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            special_tokens=[PAD, END, *ROLES],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=list(ROLES),
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def load_policy(
    folder: Path, *, keep_types: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return model and tokenizer of a checkpoint folder.

    The weights are float32, ready for training. Versions are published in the folder's own types.

    Args:
        keep_types: keep the folder's own types, for the base of an adapter: no weight is copied.

    Raises:
        NotFound: the folder has no model.
        InvalidInput: as for `check_folder`; or its tensors are not those of its configuration, or
            are not finite.
    """
    check_folder(folder)
    model: PreTrainedModel
    report: dict[str, Collection[object]]
    model, report = AutoModelForCausalLM.from_pretrained(  # type: ignore[misc]
        folder,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        dtype="auto",
        ignore_mismatched_sizes=True,  # they are in the report
        output_loading_info=True,
    )
    _check_tensors(folder, report, model.state_dict())
    keep_served_dtypes(model)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"the tokenizer of {folder} cannot be read: {reason}") from None
    if not keep_types:
        model.float()
    _check_finite(folder, model)
    return model, tokenizer


def _check_tensors(
    folder: Path, report: Mapping[str, Collection[object]], own: Collection[str]
) -> None:
    """Check that no weight was left to chance, and no layer of the folder was left out.

    Tensors of another purpose, such as a value head, may be left out.

    Args:
        report: of `from_pretrained`: names by what is wrong with them, such as `missing_keys`.
        own: the names of the model's tensors.

    Raises:
        InvalidInput: one was; names some of them.
    """
    wrong = {
        kind.removesuffix("_keys"): sorted(map(tensor_told, keys)) for kind, keys in report.items()
    }
    kinds = set(map(_of_any_layer, own))
    wrong["unexpected"] = [
        one for one in wrong.get("unexpected", ()) if _of_any_layer(one) in kinds
    ]
    told = [f"{kind}: {some_of(names)}" for kind, names in wrong.items() if names]
    if told:
        raise InvalidInput(
            f"the tensors in {folder} are not those of its config.json: {'; '.join(told)}",
            hint="take a whole checkpoint of a causal language model; a base model without its "
            "head cannot be trained",
        )


def _check_finite(folder: Path, model: PreTrainedModel) -> None:
    """Check that no weight is NaN or infinite.

    Raises:
        InvalidInput: one is; names some of the tensors.
    """
    # The least and the greatest weight take one pass and no memory, and are NaN if any is.
    wrong = [
        name
        for name, weight in model.named_parameters()
        if weight.numel() and not all(one.isfinite() for one in weight.detach().aminmax())
    ]
    if wrong:
        raise InvalidInput(
            f"the weights in {folder} have NaN or infinite values: {some_of(wrong)}",
            hint="take a checkpoint from before the training diverged, or download it again",
        )


def _of_any_layer(name: str) -> str:
    return re.sub(r"\d+", "N", name)
