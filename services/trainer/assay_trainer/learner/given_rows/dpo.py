"""Direct preference optimisation: the better of two answers becomes likelier than the worse.

The reward of an answer is beta times the log-ratio of its probability to the one that the policy
at the stage's start gives it; the margin of a pair is the reward of the chosen answer minus the
reward of the rejected one (arXiv 2305.18290).
"""

from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import DatasetError
from assay_shared.statistics.interval import Interval, normal_interval, wilson_bounds
from assay_trainer.config import DPOConfig
from assay_trainer.data.preferences import Preference
from assay_trainer.data.tokenization import answer_end_id, most_characters, prompt_token_ids
from assay_trainer.events import DPOMeasured, DPOStep
from assay_trainer.learner.given_rows.callbacks import StageAttempt, step_facts
from assay_trainer.learner.given_rows.training_rows import PairIds, num_updates
from assay_trainer.learner.network.context import context_of
from assay_trainer.learner.network.dropout import remove_dropout

_CONFIDENCE = 0.95


def pair_token_ids(
    preferences: Sequence[Preference],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> list[PairIds | None]:
    """Return the ids of each pair; None for a pair longer than `max_length` or the context.

    Raises:
        DatasetError: every pair is too long.
    """
    longest = min(max_length, context_of(model.config) or max_length)
    most = most_characters(tokenizer, longest)
    found: list[PairIds | None] = []
    for one in preferences:
        if len(one.task.prompt) + max(len(one.chosen), len(one.rejected)) > most:
            found.append(None)
            continue
        prompt = prompt_token_ids(one.task, tokenizer)
        end_id = answer_end_id(one.task.prompt_format, tokenizer)
        chosen, rejected = (
            [*tokenizer.encode(text, add_special_tokens=False), end_id]
            for text in (one.chosen, one.rejected)
        )
        fits = len(prompt) + max(len(chosen), len(rejected)) <= longest
        found.append((prompt, chosen, rejected) if fits else None)
    if preferences and not any(found):
        raise DatasetError(
            f"all {len(found)} pairs are longer than {longest} tokens", field="dpo.max_length"
        )
    return found


def train_dpo(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[PairIds],
    config: DPOConfig,
    attempt: StageAttempt,
    on_step: Callable[[DPOStep], None],
    on_measured: Callable[[DPOMeasured], None],
    held_out: Sequence[PairIds] = (),
) -> None:
    """Train `model` in place, without dropout. The pairs of `held_out` are only measured.

    `model` is the policy at the stage's start, also on a resume: the rewards refer to it.

    Raises:
        Stopped, Diverged: see `StageAttempt.train`.
    """
    from assay_trainer.learner.trl_backend import (
        answer_logprobs,
        configuration_kept,
        make_dpo_trainer,
    )

    def report(step: int, metrics: dict[str, float]) -> None:
        on_step(
            DPOStep(
                **step_facts(step, metrics),
                margin=metrics["rewards/margins"],
                accuracy=metrics["rewards/accuracies"],
            )
        )

    num_steps = num_updates(config, len(pairs))
    remove_dropout(model)
    with configuration_kept(model):
        trainer = make_dpo_trainer(model, tokenizer, pairs, config, attempt, num_steps, report)
        before = answer_logprobs(trainer, held_out)
        if held_out and attempt.resume_from is None:
            on_measured(measured("before", before, before, config.beta))
        attempt.train(trainer, num_steps)
        if held_out:
            on_measured(measured("after", answer_logprobs(trainer, held_out), before, config.beta))


def measured(
    name: str, logprobs_P2: torch.Tensor, first_logprobs_P2: torch.Tensor, beta: float
) -> DPOMeasured:
    """Return the margins and win rates of pairs of chosen and rejected answers.

    Args:
        logprobs_P2: log-probabilities of whole answers, in nats.
        first_logprobs_P2: the same under the policy at the stage's start.
    """
    preferred_P = logprobs_P2[:, 0] - logprobs_P2[:, 1]
    margins_P = beta * (preferred_P - (first_logprobs_P2[:, 0] - first_logprobs_P2[:, 1]))
    return DPOMeasured(
        name=name,
        num_pairs=len(margins_P),
        margin=float(margins_P.mean()),
        win_rate=_share_above_0(margins_P),
        logprob_win_rate=_share_above_0(preferred_P),
        margin_interval=normal_interval(margins_P.tolist(), _CONFIDENCE),
        margins=tuple(margins_P.tolist()),
        preferred=tuple(preferred_P.tolist()),
    )


def _share_above_0(values_P: torch.Tensor) -> Interval:
    """Return the share of positive values with Wilson's interval; a 0 counts one half."""
    num_wins = int((values_P > 0).sum()) + int((values_P == 0).sum()) / 2
    share = num_wins / len(values_P)
    return Interval(share, *wilson_bounds(share, len(values_P), _CONFIDENCE))
