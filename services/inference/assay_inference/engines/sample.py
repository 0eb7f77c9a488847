"""Samples of a request as they grow, under every engine."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from assay_inference.engines.detokenize import Detokenizer
from assay_shared.errors import NotReady
from assay_shared.types import Completion, FinishReason, PolicyVersion, TopLogprobs, VersionSpan

#: New weights may make one request start again this many times.
MAX_REDRAWS = 16


class Sample:
    """A sample; new weights read its tokens again."""

    def __init__(self, stop: tuple[str, ...], min_tokens: int = 0) -> None:
        self.transcript = Detokenizer(stop, min_tokens)
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.top_logprobs: list[TopLogprobs] = []
        self.spans = Spans()
        self.finish_reason: FinishReason | None = None

    def completion(self) -> Completion:
        """Return the completion, once the sample is finished."""
        assert self.finish_reason is not None
        return Completion(
            token_ids=tuple(self.token_ids),
            logprobs=tuple(self.logprobs),
            text=self.transcript.text,
            finish_reason=self.finish_reason,
            policy=self.spans.newest,
            versions=self.spans.mixed,
            top_logprobs=tuple(self.top_logprobs),
        )


OneSample = TypeVar("OneSample", bound=Sample)


class Restartable(ABC, Generic[OneSample]):
    """A request's samples until all are finished; new weights may restart them."""

    samples: list[OneSample]
    _num_redraws = 0

    @abstractmethod
    def _new_samples(self) -> list[OneSample]:
        """Return empty samples."""

    @property
    def is_finished(self) -> bool:
        return all(sample.finish_reason is not None for sample in self.samples)

    def redraw(self) -> None:
        """Forget all tokens.

        Raises:
            NotReady: some text was streamed already, or too many restarts.
        """
        if any(sample.transcript.is_shown for sample in self.samples):
            raise NotReady(
                "new weights came while this was streamed, and no text mixes two versions",
                hint="ask again",
                retry_after_s=0.0,
            )
        if self._num_redraws >= MAX_REDRAWS:
            raise NotReady(
                f"new weights came {self._num_redraws} times before this was drawn",
                retry_after_s=1.0,
            )
        self._num_redraws += 1
        self.samples = self._new_samples()


class Spans:
    """Grows with a sample."""

    def __init__(self) -> None:
        self._policies: list[PolicyVersion] = []
        self._lengths: list[int] = []

    def add(self, policy: PolicyVersion, num_tokens: int) -> None:
        """Note that `policy` sampled the next `num_tokens`."""
        if self._policies and (self._policies[-1] is policy or self._policies[-1] == policy):
            self._lengths[-1] += num_tokens
        elif num_tokens > 0:
            self._policies.append(policy)
            self._lengths.append(num_tokens)

    @property
    def newest(self) -> PolicyVersion:
        return self._policies[-1]

    @property
    def mixed(self) -> tuple[VersionSpan, ...]:
        """Return all spans; empty if there is only a single span."""
        if len(self._policies) < 2:
            return ()
        return tuple(
            VersionSpan(policy=policy, num_tokens=length)
            for policy, length in zip(self._policies, self._lengths, strict=True)
        )
