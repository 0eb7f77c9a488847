"""Which version drew which of a sample's tokens."""

from assay_shared.types import PolicyVersion, VersionSpan


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
