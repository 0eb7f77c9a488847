"""One version of the policy: opened from a checkpoint folder and checked before it serves."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import InvalidInput, WeightsRefused
from assay_shared.types import LogprobProbe, PolicyVersion, SamplingParams


@dataclass(frozen=True)
class Model:
    """Network, tokenizer and what bounds its answers."""

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    policy: PolicyVersion
    end_ids: frozenset[int]
    max_length: int

    def check_fits(self, prompt: list[int], sampling: SamplingParams) -> None:
        """Raises InvalidInput if the prompt and `max_tokens` do not fit this model."""
        vocabulary = self.network.config.vocab_size
        if not all(0 <= token_id < vocabulary for token_id in prompt):
            raise InvalidInput(f"ids must be between 0 and {vocabulary - 1}", field="token_ids")
        room = max(self.max_length - len(prompt), 0)
        if sampling.max_tokens > room:
            raise InvalidInput(
                f"a prompt of {len(prompt)} tokens leaves room for {room} in a context of "
                f"{self.max_length}, not for {sampling.max_tokens}",
                field="sampling.max_tokens",
            )


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def open_model(folder: Path, policy: PolicyVersion, device: torch.device) -> Model:
    """Load a checkpoint folder.

    Raises:
        WeightsRefused: its tensors are not exactly those of its config.
        Exception: whatever the libraries raise on a file that they cannot read.
    """
    network: PreTrainedModel
    report: dict[str, Collection[object]]
    network, report = AutoModelForCausalLM.from_pretrained(  # type: ignore[misc]
        folder, local_files_only=True, dtype="auto", output_loading_info=True
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network.to(device)  # type: ignore[arg-type]  # its wrapper hides the signature
    wrong = {kind: sorted(map(str, keys)) for kind, keys in report.items() if keys}
    if wrong:
        raise WeightsRefused(f"{folder} does not fit its own config.json: {wrong}")
    kinds = set(getattr(network.config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        raise WeightsRefused(
            f"{folder} has layers of {', '.join(sorted(kinds))}; this engine serves full attention"
        )
    end = network.generation_config.eos_token_id
    end_ids = {end} if isinstance(end, int) else set(end or ())
    return Model(
        network=network.eval(),
        tokenizer=tokenizer,
        policy=policy,
        end_ids=frozenset((end_ids | {tokenizer.eos_token_id}) - {None}),
        max_length=int(network.config.max_position_embeddings),
    )


def probe_difference(model: Model, probe: LogprobProbe) -> float:
    """The largest difference between the model's log-probabilities and the probe's, in nats.

    Raises:
        WeightsRefused: it is over the probe's tolerance.
    """
    ids_1T = torch.tensor([probe.token_ids], device=model.network.device)
    with torch.inference_mode():
        logits_TV = model.network(input_ids=ids_1T).logits[0, :-1].float()
    logprobs_T = logits_TV.log_softmax(dim=-1).gather(1, ids_1T[0, 1:, None])[:, 0]
    expected_T = torch.tensor(probe.logprobs, device=logprobs_T.device)
    difference = float((logprobs_T - expected_T).abs().max())
    if not difference <= probe.tolerance:  # NaN is refused too
        raise WeightsRefused(
            f"the probe's log-probabilities differ by {difference:.4g} nats, more than "
            f"{probe.tolerance:.4g}: these are not the weights that were announced"
        )
    return difference
