"""A version of the policy: loaded from a checkpoint folder and checked before serving."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)

from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_inference.weights.attest import Arithmetic, compare_probe
from assay_inference.weights.config_sizes import bounded, check_layout
from assay_inference.weights.safetensors import read_layout
from assay_shared.errors import WeightsRefused
from assay_shared.text.listing import some_of
from assay_shared.types import LogprobProbe, PolicyVersion
from assay_shared.weights.tensor_names import tensor_told

#: The library builds a network on a device that all threads share: two at once break each other.
_LOADING = threading.Lock()
#: Models whose attention takes no positions from a cache.
_ALIBI = frozenset({"bloom", "mpt"})


@dataclass(frozen=True)
class LoadedModel:
    """A version of the network, and its tokenizer."""

    network: PreTrainedModel
    vocabulary: PolicyTokenizer
    policy: PolicyVersion
    folder: Path


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def open_model(folder: Path, policy: PolicyVersion, device: torch.device) -> LoadedModel:
    """Load a checkpoint folder.

    Raises:
        WeightsRefused: its tensors are not exactly those of its config (checked before memory is
            taken), or its tokenizer does not fit.
        Exception: any error of the libraries on an unreadable file.
    """
    network: PreTrainedModel
    report: dict[str, Collection[object]]
    layout = read_layout(folder)
    check_layout(folder, layout)
    with _LOADING, bounded(folder, layout):
        network, report = AutoModelForCausalLM.from_pretrained(  # type: ignore[misc]
            folder,
            local_files_only=True,
            use_safetensors=True,
            dtype="auto",
            ignore_mismatched_sizes=True,  # they are in the report
            output_loading_info=True,
        )
    check_report(folder, report)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network.to(device)  # type: ignore[arg-type]  # its wrapper hides the signature
    check_attention(folder, network.config)
    if hasattr(network.config, "output_router_logits"):
        network.config.output_router_logits = False  # for a loss alone, which takes other masks
    end = network.generation_config.eos_token_id
    end_ids = {end} if isinstance(end, int) else set(end or ())
    vocabulary = PolicyTokenizer(
        tokenizer=tokenizer,
        size=int(network.config.vocab_size),
        end_ids=frozenset((end_ids | {tokenizer.eos_token_id}) - {None}),
        max_length=int(network.config.max_position_embeddings),
    )
    vocabulary.check_usable(folder)
    return LoadedModel(network.eval(), vocabulary, policy, folder)


def check_report(folder: Path, report: Mapping[str, Collection[object]]) -> None:
    """Check that a network took all tensors of a folder, and has no others.

    Args:
        report: of `from_pretrained`: names by what is wrong with them, such as `missing_keys`, and
            of a mismatch the shapes too.

    Raises:
        WeightsRefused: one is missing, unexpected or of another shape; names the first of each.
    """
    told = [
        f"{kind.removesuffix('_keys')}: {some_of(sorted(map(tensor_told, keys)))}"
        for kind, keys in report.items()
        if keys
    ]
    if told:
        raise WeightsRefused(f"{folder} does not fit its own config.json: {'; '.join(told)}")


def check_attention(folder: Path, config: PreTrainedConfig) -> None:
    """Check that all layers of a model read its whole context, by positions.

    Raises:
        WeightsRefused: a layer reads another part, such as a window, or has no positions.
    """
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention"}
    window = getattr(text, "sliding_window", None)
    if window is not None and window < text.max_position_embeddings:
        kinds.add(f"attention within a window of {window} tokens")
    elif window is not None:
        kinds.discard("sliding_attention")  # the window holds the whole context
    if text.model_type in _ALIBI or getattr(text, "alibi", False):
        kinds.add("attention with linear biases (ALiBi)")
    if kinds:
        raise WeightsRefused(
            f"{folder} has layers of {', '.join(sorted(kinds))}; this engine serves full attention",
            hint="serve it with vLLM: ASSAY_INFERENCE_ENGINE=vllm",
        )


def probe_difference(model: LoadedModel, probe: LogprobProbe) -> float:
    """Do as `compare_probe`."""
    ids_1T = torch.tensor([probe.token_ids], device=model.network.device)
    with torch.inference_mode():
        logits_TV = model.network(input_ids=ids_1T).logits[0, :-1].float()
    logprobs_T = logits_TV.log_softmax(dim=-1).gather(1, ids_1T[0, 1:, None])[:, 0]
    dtype = str(model.network.dtype).removeprefix("torch.")
    arithmetic = Arithmetic(dtype, on_gpu=model.network.device.type != "cpu")
    return compare_probe(probe, logprobs_T.tolist(), arithmetic)
