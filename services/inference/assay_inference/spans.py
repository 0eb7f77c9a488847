"""Which version drew which of a sample's tokens, and what new weights ask of samples in hand."""

from assay_shared.errors import NotReady
from assay_shared.types import PolicyVersion, VersionSpan

#: Further draws that new weights may cost one request.
MAX_REDRAWS = 16


class Spans:
    """Grows with a sample."""

    def __init__(self) -> None:
        self._policies: list[PolicyVersion] = []
        self._lengths: list[int] = []

    def add(self, policy: PolicyVersion, num_tokens: int) -> None:
        """`policy` drew the next `num_tokens`."""
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
        """All of them; empty where there is only one."""
        if len(self._policies) < 2:
            return ()
        return tuple(
            VersionSpan(policy=policy, num_tokens=length)
            for policy, length in zip(self._policies, self._lengths, strict=True)
        )


def check_redraw(num_redraws: int, *, is_shown: bool) -> None:
    """Whether a request can be drawn anew from its prompt.

    Raises:
        NotReady: some of its text was streamed already, or it was drawn anew too often.
    """
    if is_shown:
        raise NotReady(
            "new weights came while this was streamed, and no text mixes two versions",
            hint="ask again",
            retry_after_s=0.0,
        )
    if num_redraws >= MAX_REDRAWS:
        raise NotReady(
            f"new weights came {num_redraws} times before this was drawn", retry_after_s=1.0
        )
