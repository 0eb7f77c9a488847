"""Scored groups as packs: sequences one after another, without padding.

Shapes: T tokens of a pack, S sequences, L sampled tokens (those of the loss).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from assay_shared.types import Normalisation, PolicyVersion, Rollout, ScoredGroup
from assay_trainer.learner.advantage import advantages, group_rewards
from assay_trainer.learner.objective import LossTokens, Objective


@dataclass(frozen=True)
class AnswerRow:
    """A scored sample."""

    prompt_token_ids: tuple[int, ...]
    rollout: Rollout
    advantage: float

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_token_ids) + len(self.rollout.token_ids)


@dataclass(frozen=True)
class Pack:
    """Sequences of one forward pass. An environment's observation is read, but never learnt."""

    token_ids_T: torch.Tensor
    #: The position of each token in its sequence.
    position_ids_T: torch.Tensor
    #: The start of each sequence, and the end of the last: S + 1 entries.
    bounds_S: torch.Tensor
    #: The number of tokens of the longest sequence.
    max_length: int
    #: The place of each sampled token in T, ascending.
    places_L: torch.Tensor
    loss: LossTokens
    #: True at tokens that the trainer's current version sampled.
    fresh_L: torch.Tensor


def rows(
    groups: Sequence[ScoredGroup], normalise: Normalisation = Normalisation.GROUP
) -> list[AnswerRow]:
    """Return the scored samples of `groups` with their advantages; the others are left out."""
    advantages_PG = advantages([group_rewards(group, normalise) for group in groups])
    return [
        AnswerRow(scored.group.prompt_token_ids, rollout, advantage)
        for scored, advantages_G in zip(groups, advantages_PG, strict=True)
        for rollout, advantage in zip(scored.group.rollouts, advantages_G, strict=True)
        if advantage is not None
    ]


def unweighted_rows(scored: ScoredGroup) -> list[AnswerRow]:
    """Return all samples of a group without advantages, for measurement only."""
    return [AnswerRow(scored.group.prompt_token_ids, one, 0.0) for one in scored.group.rollouts]


def pack_rows(
    step_rows: Sequence[AnswerRow],
    objective: Objective,
    tokens_per_pack: int,
    policy: PolicyVersion | None = None,
) -> list[Pack]:
    """Return the rows of a step as packs of at most `tokens_per_pack` tokens.

    A longer row is alone in a pack. `policy` is the version of the trainer's weights.
    """
    weights = objective.token_weights([sum(row.rollout.sampled_mask) for row in step_rows])
    weighted = list(zip(step_rows, weights, strict=True))
    bins = _fill([row.num_tokens for row in step_rows], tokens_per_pack)
    return [_pack([weighted[index] for index in one], policy) for one in bins]


def shares(packs: Sequence[Pack], num_ranks: int) -> list[list[Pack]]:
    """Return the packs of each rank: as many for all, some of them without a sampled token."""
    largest_first = sorted(packs, key=lambda pack: -len(pack.token_ids_T))
    found = [largest_first[rank::num_ranks] for rank in range(num_ranks)]
    return [one + [_blank(packs[0])] * (len(found[0]) - len(one)) for one in found]


def _blank(pack: Pack) -> Pack:
    """Return a pack of one token that is read and never learnt."""
    loss = {name: one[:0] for name, one in vars(pack.loss).items() if one is not None}
    return replace(
        pack,
        token_ids_T=pack.token_ids_T[:1],
        position_ids_T=pack.position_ids_T[:1],
        bounds_S=pack.bounds_S.new_tensor([0, 1]),
        max_length=1,
        places_L=pack.places_L[:0],
        loss=replace(pack.loss, **loss),
        fresh_L=pack.fresh_L[:0],
    )


def _fill(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """Return indices by bin, first fit in falling order of size."""
    bins: list[list[int]] = []
    left: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        size = sizes[index]
        found = next((at for at, free in enumerate(left) if free >= size), None)
        if found is None:
            bins.append([index])
            left.append(capacity - size)
        else:
            bins[found].append(index)
            left[found] -= size
    return bins


def _pack(weighted: Sequence[tuple[AnswerRow, float]], policy: PolicyVersion | None) -> Pack:
    lengths = [row.num_tokens for row, _ in weighted]
    bounds_S = torch.tensor([0, *lengths]).cumsum(0)
    places, old, fresh = list[int](), list[float](), list[bool]()
    advantages_L, weights_L, sequence_L = list[float](), list[float](), list[int]()
    for index, (row, weight) in enumerate(weighted):
        start = int(bounds_S[index]) + len(row.prompt_token_ids)
        sampled = [at for at, own in enumerate(row.rollout.sampled_mask) if own]
        is_fresh = row.rollout.mask(lambda by: by is not None and by == policy)
        places += [start + at for at in sampled]
        old += [row.rollout.logprobs[at] for at in sampled]
        fresh += [is_fresh[at] for at in sampled]
        advantages_L += [row.advantage] * len(sampled)
        weights_L += [weight] * len(sampled)
        sequence_L += [index] * len(sampled)
    ids = [one for row, _ in weighted for one in (*row.prompt_token_ids, *row.rollout.token_ids)]
    return Pack(
        token_ids_T=torch.tensor(ids),
        position_ids_T=torch.cat([torch.arange(length) for length in lengths]),
        bounds_S=bounds_S.int(),
        max_length=max(lengths),
        places_L=torch.tensor(places, dtype=torch.long),
        loss=LossTokens(
            old_logprobs_L=torch.tensor(old),
            reference_logprobs_L=None,
            advantages_L=torch.tensor(advantages_L),
            weights_L=torch.tensor(weights_L),
            sequence_L=torch.tensor(sequence_L, dtype=torch.long),
        ),
        fresh_L=torch.tensor(fresh, dtype=torch.bool),
    )
