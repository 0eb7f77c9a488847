"""Keys currently accepted by a service: its own, its clients' keys, and the keys of a file.

The service polls the file (`ASSAY_CLIENT_TOKENS_FILE`), so a key can be added or revoked without a
restart. If the file cannot be read, the service logs this and keeps the previous keys.
"""

import hashlib
import hmac
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from assay_shared.errors import AssayError, ConfigError, Overloaded, Unauthorized
from assay_shared.settings.api_keys import ClientKey, Scope
from assay_shared.settings.key_file import read_keys
from assay_shared.types import Priority

_log = logging.getLogger(__name__)

#: Interval between two checks of the file.
_LOOK_EVERY_S = 1.0
#: Size of a burst, as a share of a minute's requests.
_BURST_MINUTES = 1 / 6


@dataclass
class KeyOwner:
    """A key and its token bucket: the number of requests it may send now."""

    name: str
    digest: bytes
    key: ClientKey
    num_left: float
    counted_at: float

    @classmethod
    def of(cls, name: str, key: ClientKey) -> "KeyOwner":
        return cls(
            name=name,
            digest=digest_of(key.token.get_secret_value()),
            key=key,
            num_left=_burst(key.requests_per_minute),
            counted_at=time.monotonic(),
        )

    @property
    def scopes(self) -> frozenset[Scope] | None:
        """Scopes of the key; None means all."""
        return self.key.scopes

    @property
    def priorities(self) -> frozenset[Priority] | None:
        """Priorities allowed for the key's generations; None means all."""
        return self.key.priorities

    def check_not_expired(self) -> None:
        """Raise Unauthorized if the key has expired."""
        ends = self.key.expires_at
        if ends is not None and datetime.now(UTC) >= ends:
            raise Unauthorized(f"the key of {self.name!r} expired at {ends:%Y-%m-%d %H:%M} UTC")

    def count(self) -> None:
        """Count a request; raise Overloaded if the key exceeds its rate limit."""
        limit = self.key.requests_per_minute
        if limit is None:
            return
        now = time.monotonic()
        gained = (now - self.counted_at) * limit / 60
        self.num_left, self.counted_at = min(_burst(limit), self.num_left + gained), now
        if self.num_left < 1:
            raise Overloaded(
                f"the key of {self.name!r} may send {limit} requests a minute",
                retry_after_s=(1 - self.num_left) * 60 / limit,
            )
        self.num_left -= 1


class KeyRing:
    """Table of accepted keys; finds the owner of a token. For use on one event loop."""

    def __init__(self, keys: Mapping[str, ClientKey], own: str, file: Path | None) -> None:
        """Store the accepted keys and watch `file`.

        Args:
            keys: accepted keys by name of their owner, including the keys of `file`.
            own: name of the service's own key in `keys`.
            file: file with clients' keys, polled for changes.
        """
        self._fixed = {name: key for name, key in keys.items() if file is None or name == own}
        self._file = file
        self._stamp = _stamp(file)
        self._looked_at = time.monotonic()
        self._clients = [KeyOwner.of(name, key) for name, key in keys.items()]
        self._own = own

    @property
    def own_token_digest(self) -> bytes | None:
        """SHA-256 of the service's own token, or None if it has none."""
        return next((c.digest for c in self._clients if c.name == self._own), None)

    def find(self, token: str) -> KeyOwner | None:
        """Return the owner of a token, or None; every key is compared, in constant time."""
        self._look()
        given, found = digest_of(token), None
        for client in self._clients:  # no early exit: otherwise the time would reveal the key
            if hmac.compare_digest(given, client.digest):
                found = client
        return found

    def own(self) -> KeyOwner | None:
        """Return the service's own key."""
        return next((c for c in self._clients if c.name == self._own), None)

    def _look(self) -> None:
        """Read the file again if it has changed."""
        now = time.monotonic()
        if self._file is None or now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = now
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            keys = self._fixed | read_keys(self._file)
            if len({key.token.get_secret_value() for key in keys.values()}) < len(keys):
                raise ConfigError("two clients have the same token")
        except AssayError as error:
            _log.error("%s: the keys stay as they were: %s", self._file, error.message)
            return
        before = {client.name: client for client in self._clients}
        self._clients = [
            before[name] if name in before and before[name].key == key else KeyOwner.of(name, key)
            for name, key in keys.items()
        ]
        _log.info("%s was read again: %d keys", self._file, len(self._clients))


def digest_of(token: str) -> bytes:
    """Return the SHA-256 of a token; services keep only this."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _burst(requests_per_minute: int | None) -> float:
    return max(1.0, (requests_per_minute or 0) * _BURST_MINUTES)


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    """Return the mtime, size and inode of a file, or None if it does not exist."""
    try:
        found = None if file is None else file.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
