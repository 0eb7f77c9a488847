"""Sampling of the next try: at temperature 0 the same request mostly gets the same bad reply."""

from dataclasses import dataclass, replace

from assay_shared.providers.config import Effort

_LOWER: dict[Effort, Effort] = {"high": "medium", "medium": "low"}
_RESEED_TEMPERATURE = 0.7


@dataclass(frozen=True)
class Attempt:
    """Sampling parameters of a request."""

    max_tokens: int
    temperature: float
    seed: int
    effort: Effort | None = None

    def with_more_tokens(self, max_tokens_limit: int) -> "Attempt":
        """Return the next try after an empty or truncated reply: twice the tokens, less effort.

        A reasoning model spends its tokens on the reasoning first, so an empty reply mostly means
        that the reasoning has used them up. If neither can change any more, only reseed.
        """
        max_tokens = min(2 * self.max_tokens, max_tokens_limit)
        effort = _LOWER.get(self.effort, self.effort) if self.effort is not None else None
        if (max_tokens, effort) == (self.max_tokens, self.effort):
            return self.reseeded()
        return replace(self, max_tokens=max_tokens, effort=effort, seed=self.seed + 1)

    def reseeded(self, seed_offset: int = 1) -> "Attempt":
        """Return another sample's parameters, for an unreadable reply or for another vote."""
        temperature = max(self.temperature, _RESEED_TEMPERATURE)
        return replace(self, temperature=temperature, seed=self.seed + seed_offset)

    def __str__(self) -> str:
        effort = f", {self.effort} effort" if self.effort else ""
        return f"{self.max_tokens} tokens, temperature {self.temperature}, seed {self.seed}{effort}"
