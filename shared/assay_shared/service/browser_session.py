"""Browser sessions without a typed token: a link opens once and gives the browser a cookie.

The link's code and the cookie's value hold their expiry time, random bytes and a MAC of both, keyed
by the service's own token (RFC 2104). Anybody with the token can make them, and the service stores
no sessions. A cookie allows reading pages; it cannot start or change anything.
"""

import hashlib
import hmac
import secrets
import time
from http.cookies import CookieError, SimpleCookie

COOKIE = "assay_session"
#: The route that exchanges a link's code for a cookie.
OPEN_ROUTE = "/open"
#: Lifetimes of a link and of its cookie.
LINK_S, COOKIE_S = 15 * 60, 7 * 24 * 3600
_MAX_COOKIE_CHARS = 4096


def make_link(url: str, token: str) -> str:
    """Return a link that opens `url` once, in any browser, within `LINK_S`."""
    code = _make(hashlib.sha256(token.encode()).digest(), "link", LINK_S)
    return f"{url.rstrip('/')}{OPEN_ROUTE}?code={code}"


class BrowserSessions:
    """Checker of codes and cookies; `secret` is the digest of the service's own token."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        #: Used codes and their expiry times; an expired code is dropped.
        self._used: dict[str, float] = {}

    def exchange(self, code: str) -> str | None:
        """Return a cookie's value for a link's code, or None if the code is wrong, old or used."""
        now = time.time()
        self._used = {used: end for used, end in self._used.items() if end > now}
        end = _end_of(self._secret, "link", code)
        if end is None or code in self._used:
            return None
        self._used[code] = end
        return _make(self._secret, "cookie", COOKIE_S)

    def is_good(self, cookie_header: str) -> bool:
        """Return True if a request's cookies include a valid session that has not expired."""
        if COOKIE not in cookie_header or len(cookie_header) > _MAX_COOKIE_CHARS:
            return False
        try:
            found = SimpleCookie(cookie_header).get(COOKIE)
        except CookieError:
            return False
        return found is not None and _end_of(self._secret, "cookie", found.value) is not None


def _make(secret: bytes, purpose: str, lasts_s: float) -> str:
    text = f"{int(time.time() + lasts_s)}.{secrets.token_hex(8)}"
    return f"{text}.{_mac(secret, purpose, text)}"


def _mac(secret: bytes, purpose: str, text: str) -> str:
    return hmac.new(secret, f"{purpose} {text}".encode(), hashlib.sha256).hexdigest()


def _end_of(secret: bytes, purpose: str, value: str) -> float | None:
    """Return the expiry time of a code or cookie in Unix time, or None if wrong or expired."""
    text, _, mac = value.rpartition(".")
    if not value.isascii() or not hmac.compare_digest(mac, _mac(secret, purpose, text)):
        return None
    end = float(text.partition(".")[0])
    return end if end > time.time() else None
