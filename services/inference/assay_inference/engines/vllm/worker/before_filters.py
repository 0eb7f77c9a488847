"""Log-probabilities of vLLM's samples before min-p, top-k and top-p.

`processed_logprobs` alone would renormalise over the tokens left by these filters. Runs in vLLM's
environment; its caller passes the needed parts of vLLM.
"""

from collections.abc import Callable
from typing import Any

import torch


class BeforeFilters(torch.nn.Module):
    """vLLM's sampler of temperature-scaled logits, with the log-probabilities of these.

    On a GPU, requests with seeds are drawn for together.
    """

    def __init__(self, inner: Any, apply_top_k_top_p: Callable[..., Any]) -> None:
        super().__init__()
        self._inner = inner
        self._apply_top_k_top_p = apply_top_k_top_p
        self._before_min_p: torch.Tensor | None = None

    def note(self, logits_BV: torch.Tensor) -> None:
        """Keep the log-probabilities of this step; min-p changes them next."""
        self._before_min_p = logits_BV.log_softmax(dim=-1, dtype=torch.float32)

    def forward(self, logits: Any, generators: Any, k: Any, p: Any) -> Any:
        """Return a token of each row, and all log-probabilities."""
        logprobs, self._before_min_p = self._before_min_p, None
        if logprobs is None:
            logprobs = logits.log_softmax(dim=-1, dtype=torch.float32)
        if not generators or not logits.is_cuda:
            return self._inner(logits, generators, k, p)[0], logprobs
        from seeded_noise import sample  # type: ignore[import-not-found]  # in the same folder

        probs = self._apply_top_k_top_p(logits, k, p).softmax(dim=-1, dtype=torch.float32)
        return sample(probs, generators), logprobs


def install(
    sampler: Any, inner: Any, apply_top_k_top_p: Callable[..., Any], min_p_processor: Any
) -> None:
    """Have `sampler` sample through `BeforeFilters`; does nothing if it already does."""
    if isinstance(sampler.topk_topp_sampler, BeforeFilters):
        return
    before = sampler.topk_topp_sampler = BeforeFilters(inner, apply_top_k_top_p)
    apply = min_p_processor.apply

    def noting(processor: Any, logits: Any) -> Any:
        if processor.min_p_count:
            before.note(logits)
        return apply(processor, logits)

    min_p_processor.apply = noting
