"""One sample as it grows, whoever draws it."""

from assay_inference.spans import Spans
from assay_inference.transcript import Transcript
from assay_shared.types import Completion, FinishReason


class Sample:
    """What is drawn of it already is read again where new weights take over."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self.transcript = Transcript(stop)
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.spans = Spans()
        self.finish_reason: FinishReason | None = None

    def completion(self) -> Completion:
        """Once it is finished."""
        assert self.finish_reason is not None
        return Completion(
            token_ids=tuple(self.token_ids),
            logprobs=tuple(self.logprobs),
            text=self.transcript.text,
            finish_reason=self.finish_reason,
            policy=self.spans.newest,
            versions=self.spans.mixed,
        )
