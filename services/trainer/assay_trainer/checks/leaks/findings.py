"""Parts to compare, methods, and findings."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

MAX_SAMPLES = 20
_MAX_TEXT = 240


class LeakPart(StrEnum):
    """Of a held-out task."""

    PROMPT = "prompt"
    GOLD = "gold"


class Method(StrEnum):
    """How a part of a held-out task is looked for in the training tasks."""

    #: The same words in the same part of a training task.
    EXACT = "exact"
    #: At least one n-gram in a training task: GPT-3's rule.
    SHARED = "shared n-gram"
    #: At least a given share of the n-grams in one training task.
    COVERED = "covered"
    #: At least a given Jaccard similarity to the same part of a training task.
    NEAR = "near duplicate"


#: What makes a held-out task a leaked one, where it is found for its prompt.
LEAKED = frozenset({Method.EXACT, Method.COVERED, Method.NEAR})


@dataclass(frozen=True)
class Match:
    """A held-out text found in a training task.

    `value` is 1 for an exact match, the share of n-grams, or the Jaccard similarity.
    """

    part: LeakPart
    method: Method
    held_out_id: str
    training_id: str
    value: float
    text: str

    def sample(self) -> dict[str, object]:
        """Return the match as JSON."""
        return asdict(self) | {"text": excerpt(self.text)}


def excerpt(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


class LeakFindings:
    """The best match of each held-out text by each method, and how many pairs there were."""

    def __init__(self, matches: Iterable[Match]) -> None:
        self._best: dict[tuple[LeakPart, Method], dict[str, Match]] = {}
        self._num_pairs: Counter[tuple[LeakPart, Method]] = Counter()
        for match in matches:
            best = self._best.setdefault((match.part, match.method), {})
            known = best.get(match.held_out_id)
            if known is None or match.value > known.value:
                best[match.held_out_id] = match
            self._num_pairs[match.part, match.method] += 1

    def of(self, part: LeakPart, method: Method) -> list[Match]:
        """Return a match for each held-out task found, the clearest first."""
        found = self._best.get((part, method), {}).values()
        return sorted(found, key=lambda match: (-match.value, match.held_out_id))

    def num_pairs(self, part: LeakPart, method: Method) -> int:
        return self._num_pairs[part, method]

    @property
    def leaked(self) -> list[str]:
        """Ids of held-out tasks."""
        return sorted({m.held_out_id for one in LEAKED for m in self.of(LeakPart.PROMPT, one)})
