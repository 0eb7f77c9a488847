"""Nodes of the search's tree: workflows with what they scored, and the choice of the next parent.

The choice is AFlow's: among the best nodes and the first one, uniform and by score, mixed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Final, Literal

from pydantic import NonNegativeInt

from assay_shared.types.wire import ShownText, Wire

#: The share of the uniform choice, and the sharpness of the choice by reward.
_UNIFORM: Final = 0.3
_SHARPNESS: Final = 20.0
_BEST: Final = 4
#: The same of edits, and the gain that is hoped of a kind without trials.
_EDIT_SHARPNESS: Final = 8.0
_HOPE: Final = 0.1


class NodeRecord(Wire):
    """A line of the search's log: a workflow and its evaluation."""

    kind: Literal["node", "confirmed"] = "node"
    #: From 0, the first workflow; `parent` is another node's number.
    number: NonNegativeInt
    parent: NonNegativeInt | None = None
    #: The kind of the edit, and what was done.
    edit: str = ""
    done: str = ""
    source: str
    #: Means over the scored samples; null without any.
    reward: float | None = None
    accuracy: float | None = None
    tokens: float = 0.0
    calls: float = 0.0
    #: Samples with a score, and all.
    num_scored: NonNegativeInt = 0
    num_samples: NonNegativeInt = 0
    #: For people: the first failure of a sample.
    lost: ShownText = ""
    #: Sums of all samples, those of the proposal included.
    spent_tokens: float = 0.0
    spent_money: float = 0.0
    spent_s: float = 0.0


@dataclass
class SearchNode:
    """A node with what its descendants taught: visits, and the sum of their rewards."""

    record: NodeRecord
    parent: "SearchNode | None" = None
    visits: int = 0
    rewards: float = 0.0
    #: Sources of edits that were tried from here.
    tried: set[str] = field(default_factory=set)
    #: Nothing is left to try from here.
    is_spent: bool = False

    @property
    def value(self) -> float:
        """The mean of the own reward and of the mean reward of the whole subtree."""
        own = self.record.reward or 0.0
        return own if not self.visits else (own + self.rewards / self.visits) / 2


@dataclass
class EditExperience:
    """How much the edits of a kind gained over their parents."""

    number: int = 0
    gain: float = 0.0

    @property
    def weight(self) -> float:
        """The weight of the kind in the next choice; kinds without trials stand above the mean."""
        mean = (self.gain + _HOPE) / (self.number + 1)
        return exp(_EDIT_SHARPNESS * min(0.3, max(-0.1, mean)))


class SearchTree:
    """All nodes of a search, and the experience with kinds of edits."""

    def __init__(self) -> None:
        self.nodes: list[SearchNode] = []
        self.kinds: dict[str, EditExperience] = {}

    def add(self, record: NodeRecord) -> SearchNode:
        """Add an evaluated workflow, and tell its ancestors what it scored."""
        parent = None if record.parent is None else self.nodes[record.parent]
        node = SearchNode(record, parent)
        self.nodes.append(node)
        if parent is not None:
            parent.tried.add(record.source)
            if record.reward is not None and parent.record.reward is not None:
                kind = self.kinds.setdefault(record.edit, EditExperience())
                kind.number += 1
                kind.gain += record.reward - parent.record.reward
        above: SearchNode | None = node
        while above is not None and record.reward is not None:
            above.visits += 1
            above.rewards += record.reward
            above = above.parent
        return node

    def best(self, number: int) -> list[SearchNode]:
        """Return the nodes with the highest own rewards; of equal ones, the cheapest first."""
        scored = [one for one in self.nodes if one.record.reward is not None]
        scored.sort(key=lambda one: (-(one.record.reward or 0.0), one.record.tokens))
        return scored[:number]

    def select(self, rng: random.Random) -> SearchNode | None:
        """Return the parent of the next workflow; None if every node is spent."""
        open_nodes = [one for one in self.nodes if not one.is_spent]
        if not open_nodes:
            return None
        open_nodes.sort(key=lambda one: (-one.value, one.record.number))
        among = open_nodes[:_BEST]
        first = self.nodes[0]
        if not first.is_spent and first not in among:
            among.append(first)
        top = max(one.value for one in among)
        scores = [exp(_SHARPNESS * (one.value - top)) for one in among]
        weights = [_UNIFORM / len(among) + (1 - _UNIFORM) * one / sum(scores) for one in scores]
        return rng.choices(among, weights)[0]

    def weights(self, kinds: Sequence[str]) -> list[float]:
        """Return a weight for each kind of edit, by its gains so far."""
        return [self.kinds.get(kind, EditExperience()).weight for kind in kinds]
