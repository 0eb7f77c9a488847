"""Answers at their length limit (DAPO, arXiv 2503.14476, section 3.4).

`filter`: an answer that was cut off is not learnt. Its reward stays in its group's statistics.
`punish`: an answer's reward gets `factor` times R (equation 13). With its length n, the limit L and
the zone's length C: R = 0 for n <= L - C, else (L - C - n) / C, and -1 at the limit. Stored rewards
and evaluations stay as they are.

In a task of several turns, each reply has the limit, and the longest reply counts.
"""

from dataclasses import dataclass
from typing import Literal, Self

from assay_shared.types import FinishReason, Rollout
from assay_trainer.grpo_config import GRPOConfig


@dataclass(frozen=True)
class Overlong:
    """The rule of a run. `limit` and `zone` are numbers of tokens."""

    kind: Literal["filter", "punish"]
    limit: int
    zone: int = 1
    factor: float = 1.0

    @classmethod
    def of(cls, config: GRPOConfig) -> Self | None:
        """Return the rule of a run; None without one."""
        found = config.overlong
        if found is None:
            return None
        return cls(found.kind, config.max_tokens, found.tokens or 1, found.factor)

    def drops(self, rollout: Rollout) -> bool:
        """Return True if the answer is not to be learnt."""
        return self.kind == "filter" and self._is_cut_off(rollout)

    def punishment(self, rollout: Rollout) -> float:
        """Return equation 13's R, from -1 to 0; 0 with `filter`."""
        if self.kind == "filter":
            return 0.0
        return -min(1.0, max(0.0, (longest_reply(rollout) - self.limit + self.zone) / self.zone))

    def touches(self, rollout: Rollout) -> bool:
        """Return True if the rule changes what is learnt from the answer."""
        return self.drops(rollout) or self.punishment(rollout) < 0.0

    def _is_cut_off(self, rollout: Rollout) -> bool:
        """Return True if a reply ended at the limit; only the last reply's reason is known."""
        earlier = rollout.turns[:-1]
        return rollout.finish_reason is FinishReason.LENGTH or any(
            turn.end - turn.start >= self.limit for turn in earlier
        )


def longest_reply(rollout: Rollout) -> int:
    """Return the number of tokens of the longest reply."""
    if not rollout.turns:
        return len(rollout.token_ids)
    return max(turn.end - turn.start for turn in rollout.turns)
