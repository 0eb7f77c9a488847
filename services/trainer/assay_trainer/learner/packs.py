"""Scored groups as packs: sequences one after another, without padding.

Shapes: T tokens of a pack, S sequences, L sampled tokens (those of the loss).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from assay_shared.types import Normalisation, PolicyVersion, Rollout, ScoredGroup
from assay_trainer.learner.advantage import advantages, group_rewards
from assay_trainer.learner.normalisation.overlong import Overlong
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
    """Sequences of one forward pass.

    An environment's observation and a token of a version beyond `max_staleness` are read, but never
    learnt.
    """

    token_ids_T: torch.Tensor
    #: The position of each token in its sequence.
    position_ids_T: torch.Tensor
    #: The start of each sequence, and the end of the last: S + 1 entries.
    bounds_S: torch.Tensor
    #: The number of tokens of the longest sequence.
    max_length: int
    #: The place of each learnt token in T, ascending.
    places_L: torch.Tensor
    loss: LossTokens
    #: True at tokens that the trainer's current version sampled.
    fresh_L: torch.Tensor


def rows(
    groups: Sequence[ScoredGroup],
    normalise: Normalisation = Normalisation.GROUP,
    overlong: Overlong | None = None,
) -> list[AnswerRow]:
    """Return the samples of `groups` to learn with their advantages; the others are left out."""
    advantages_PG = advantages([group_rewards(group, normalise, overlong) for group in groups])
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

    A longer row is alone in a pack; a row without a token to learn is left out. `policy` is the
    version of the trainer's weights; without it, every sampled token is learnt.
    """
    oldest = 0 if policy is None else policy.version - objective.max_staleness
    learnt = [(row, _learnt(row.rollout, oldest)) for row in step_rows]
    learnt = [(row, parts) for row, parts in learnt if parts]
    weights = objective.token_weights([sum(len(part) for part, _ in parts) for _, parts in learnt])
    weighted = [(*one, weight) for one, weight in zip(learnt, weights, strict=True)]
    bins = _fill([row.num_tokens for row, _ in learnt], tokens_per_pack)
    return [_pack([weighted[index] for index in one], policy) for one in bins]


def shares(packs: Sequence[Pack], num_ranks: int) -> list[list[Pack]]:
    """Return the packs of each rank: as many for all, some of them without a sampled token."""
    if not packs:
        return [[] for _ in range(num_ranks)]
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


#: The parts of an answer to learn, each with the version that sampled it.
_Parts = list[tuple[range, PolicyVersion]]


def _learnt(rollout: Rollout, oldest: int) -> _Parts:
    """Return the parts sampled by the version `oldest` or a later one."""
    ends = accumulate(span.num_tokens for span in rollout.spans)
    return [
        (range(end - span.num_tokens, end), span.policy)
        for end, span in zip(ends, rollout.spans, strict=True)
        if span.policy is not None and span.policy.version >= oldest
    ]


def _pack(
    weighted: Sequence[tuple[AnswerRow, _Parts, float]], policy: PolicyVersion | None
) -> Pack:
    lengths = [row.num_tokens for row, _, _ in weighted]
    bounds_S = torch.tensor([0, *lengths]).cumsum(0)
    ids, old = list[int](), list[float]()
    places, spans = list[torch.Tensor](), list[tuple[int, float, float, bool]]()
    for index, (row, parts, weight) in enumerate(weighted):
        ids += (*row.prompt_token_ids, *row.rollout.token_ids)
        start = int(bounds_S[index]) + len(row.prompt_token_ids)
        for part, sampled_by in parts:
            old += row.rollout.logprobs[part.start : part.stop]
            places.append(torch.arange(start + part.start, start + part.stop))
            spans.append((index, row.advantage, weight, sampled_by == policy))
    sequence, advantages_N, weights_N, fresh = zip(*spans, strict=True)
    sizes_N = torch.tensor([len(one) for one in places])

    def spread(values_N: Sequence[float], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.tensor(values_N, dtype=dtype).repeat_interleave(sizes_N)

    return Pack(
        token_ids_T=torch.tensor(ids, dtype=torch.long),
        position_ids_T=torch.cat([torch.arange(length) for length in lengths]),
        bounds_S=bounds_S.int(),
        max_length=max(lengths),
        places_L=torch.cat(places),
        loss=LossTokens(
            old_logprobs_L=torch.tensor(old),
            reference_logprobs_L=None,
            advantages_L=spread(advantages_N),
            weights_L=spread(weights_N),
            sequence_L=spread(sequence, torch.long),
        ),
        fresh_L=spread(fresh, torch.bool),
    )
