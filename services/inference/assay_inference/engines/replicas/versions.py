"""The versions that a router has announced to its replicas, and those that an answer may have."""

from collections import deque
from collections.abc import Set
from itertools import islice

from assay_shared.types import PolicyVersion

#: More than are announced while a request is in flight.
_MAX_KEPT = 1024


class AnnouncedVersions:
    """Versions in the order of their announcement. One is served, and one may be on its way."""

    def __init__(self) -> None:
        self.served: PolicyVersion | None = None
        self.coming: PolicyVersion | None = None
        self._announced: deque[PolicyVersion] = deque(maxlen=_MAX_KEPT)

    def announce(self, policy: PolicyVersion) -> None:
        """Note that replicas are given `policy` from now on."""
        self.coming = policy
        if policy in self._announced:
            self._announced.remove(policy)
        self._announced.append(policy)

    def settle(self, *, is_served: bool) -> None:
        """Note the end of the announcement."""
        if is_served:
            self.served = self.coming
        self.coming = None

    @property
    def current(self) -> Set[PolicyVersion]:
        """The versions under which a replica may sample new requests."""
        return {one for one in (self.served, self.coming) if one is not None}

    def since(self, start: PolicyVersion | None) -> Set[PolicyVersion]:
        """Return `start`, served as a request came, and all versions announced after it.

        Its answer may have tokens of these: with the mode `continue`, of several.
        """
        if start is None or start not in self._announced:
            return self.current
        return set(islice(self._announced, self._announced.index(start), None))
