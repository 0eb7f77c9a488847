"""Scored groups as a training batch.

Shapes: B rows (samples), P prompt tokens, C completion tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from assay_shared.types import Normalisation, PolicyVersion, Rollout, ScoredGroup
from assay_trainer.learner.advantage import advantages, group_rewards

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class AnswerRow:
    """A scored sample."""

    prompt_token_ids: tuple[int, ...]
    rollout: Rollout
    advantage: float


@dataclass(frozen=True)
class TensorBatch:
    """The tensors of the loss. Prompts are padded on the left, completions on the right.

    `logprobs_BC` come from the sampling engine: the old policy of the importance ratio.
    `loss_mask_BC` is 1 at tokens sampled by the policy; an environment's observation is read (it
    is in `completion_mask_BC`) but never learnt. `fresh_mask_BC` is 1 at tokens sampled by the
    trainer's current version.
    """

    prompt_ids_BP: torch.Tensor
    prompt_mask_BP: torch.Tensor
    completion_ids_BC: torch.Tensor
    completion_mask_BC: torch.Tensor
    loss_mask_BC: torch.Tensor
    fresh_mask_BC: torch.Tensor
    logprobs_BC: torch.Tensor
    advantages_B: torch.Tensor


def rows(
    groups: Sequence[ScoredGroup], normalise: Normalisation = Normalisation.GROUP
) -> list[AnswerRow]:
    """The scored samples of `groups`, with their advantages; the others are left out."""
    advantages_PG = advantages([group_rewards(group, normalise) for group in groups])
    return [
        AnswerRow(scored.group.prompt_token_ids, rollout, advantage)
        for scored, advantages_G in zip(groups, advantages_PG, strict=True)
        for rollout, advantage in zip(scored.group.rollouts, advantages_G, strict=True)
        if advantage is not None
    ]


def unweighted_rows(scored: ScoredGroup) -> list[AnswerRow]:
    """Return all samples of a group without weights, for measurement only."""
    return [AnswerRow(scored.group.prompt_token_ids, one, 0.0) for one in scored.group.rollouts]


def collate(
    batch_rows: Sequence[AnswerRow],
    pad_id: int,
    multiple_of: int = 1,
    policy: PolicyVersion | None = None,
) -> TensorBatch:
    """Return the tensors of the rows, padded to a multiple with fully masked rows.

    `policy` is the version of the trainer's weights.
    """
    prompts = [list(row.prompt_token_ids) for row in batch_rows]
    completions = [list(row.rollout.token_ids) for row in batch_rows]
    logprobs = [list(row.rollout.logprobs) for row in batch_rows]
    learnt = [[int(own) for own in row.rollout.sampled_mask] for row in batch_rows]
    fresh = [
        [int(own) for own in row.rollout.mask(lambda by: by is not None and by == policy)]
        for row in batch_rows
    ]
    weights = [row.advantage for row in batch_rows]
    missing = -len(batch_rows) % multiple_of
    prompts += [[pad_id]] * missing
    completions += [[]] * missing
    logprobs += [[]] * missing
    learnt += [[]] * missing
    fresh += [[]] * missing
    weights += [0.0] * missing
    prompt_width = max(map(len, prompts))
    completion_width = max(map(len, completions))
    return TensorBatch(
        prompt_ids_BP=torch.tensor([_left(p, prompt_width, pad_id) for p in prompts]),
        prompt_mask_BP=torch.tensor([_left([1] * len(p), prompt_width, 0) for p in prompts]),
        completion_ids_BC=torch.tensor([_right(c, completion_width, pad_id) for c in completions]),
        completion_mask_BC=torch.tensor(
            [_right([1] * len(c), completion_width, 0) for c in completions]
        ),
        loss_mask_BC=torch.tensor([_right(x, completion_width, 0) for x in learnt]),
        fresh_mask_BC=torch.tensor([_right(x, completion_width, 0) for x in fresh]),
        logprobs_BC=torch.tensor([_right(x, completion_width, 0.0) for x in logprobs]),
        advantages_B=torch.tensor(weights),
    )


def _left(values: list[Number], width: int, filler: Number) -> list[Number]:
    return [filler] * (width - len(values)) + values


def _right(values: list[Number], width: int, filler: Number) -> list[Number]:
    return values + [filler] * (width - len(values))
