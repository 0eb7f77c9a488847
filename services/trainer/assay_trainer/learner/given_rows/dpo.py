"""Direct preference optimisation: the better of two answers becomes likelier than the worse.

The reward of an answer is beta times the log-ratio of its probability to the one that the policy
at the stage's start gives it; the margin of a pair is the reward of the chosen answer minus the
reward of the rejected one (arXiv 2305.18290).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import DatasetError
from assay_shared.statistics.interval import Interval, wilson_bounds
from assay_trainer.config import DPOConfig
from assay_trainer.data.preferences import Preference
from assay_trainer.data.tokenization import prompt_token_ids
from assay_trainer.events import DPOMeasured, DPOStep
from assay_trainer.learner.given_rows.callbacks import (
    CompleteCheckpoints,
    ProgressCallback,
    StopBetweenSteps,
)
from assay_trainer.learner.given_rows.training_rows import PairIds, num_updates
from assay_trainer.stop import Stop

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
    longest = min(max_length, getattr(model.config, "max_position_embeddings", max_length))
    found: list[PairIds | None] = []
    for one in preferences:
        prompt = prompt_token_ids(one.task, tokenizer)
        chosen, rejected = (
            [*tokenizer.encode(text, add_special_tokens=False), int(tokenizer.eos_token_id)]
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
    *,
    seed: int,
    checkpoints: Path,
    on_step: Callable[[DPOStep], None],
    on_measured: Callable[[DPOMeasured], None],
    stop: Stop,
    held_out: Sequence[PairIds] = (),
    keep_checkpoints: int = 2,
    resume_from: Path | None = None,
) -> None:
    """Train `model` in place, from the checkpoint `resume_from` if there is one.

    `model` is the policy at the stage's start, also on a resume: the rewards refer to it. The pairs
    of `held_out` are measured before and after, and not trained on.

    Raises:
        Stopped: a stop was requested; the checkpoint is written.
        Diverged: the loss is not finite.
    """
    from assay_trainer.learner.trl_backend import answer_logprobs, make_dpo_trainer, memory_bytes

    def report(step: int, metrics: dict[str, float]) -> None:
        on_step(
            DPOStep(
                step=step,
                epoch=metrics["epoch"],
                loss=metrics["loss"],
                learning_rate=metrics["learning_rate"],
                grad_norm=metrics["grad_norm"],
                memory_bytes=memory_bytes(),
                margin=metrics["rewards/margins"],
                accuracy=metrics["rewards/accuracies"],
            )
        )

    trainer = make_dpo_trainer(
        model,
        tokenizer,
        pairs,
        config,
        num_steps=num_updates(config, len(pairs)),
        seed=seed,
        folder=checkpoints,
        callbacks=[
            ProgressCallback(report),
            StopBetweenSteps(stop),
            CompleteCheckpoints(checkpoints, keep_checkpoints),
        ],
    )
    before = answer_logprobs(trainer, held_out)
    if held_out and resume_from is None:
        on_measured(measured("before", before, before, config.beta))
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
    stop.check()
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
    )


def _share_above_0(values_P: torch.Tensor) -> Interval:
    """Return the share of positive values with Wilson's interval; a 0 counts one half."""
    num_wins = int((values_P > 0).sum()) + int((values_P == 0).sum()) / 2
    share = num_wins / len(values_P)
    return Interval(share, *wilson_bounds(share, len(values_P), _CONFIDENCE))
