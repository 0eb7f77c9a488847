"""Hiding keys in texts from outside, before they are shown or kept."""

import re

_HIDDEN = "[hidden]"
#: A text is searched up to here; beyond, nothing of it is shown.
_MAX_TEXT = 10_000
_SCHEMES = re.compile(r"(?i)\b(bearer|basic)\s{1,4}[\w.~+/=-]{6,}")
#: As providers make them: a short prefix, and a long run without spaces.
_KEYS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|glpat|key|nvapi|r8|AKIA|AIza)[-_]?[\w-]{8,}"
    r"|\beyJ[\w-]{8,}(?:\.[\w-]+){0,2}"
)
_NAMED = re.compile(
    r"(?i)((?:api[-_ ]?key|access[-_ ]?key|secret|token|password|passwd)"
    r"[\"']?\s{0,3}[=:]\s{0,3}[\"']?)[^\s\"'&,;]{4,}"
)
_USER = re.compile(r"(?<=://)[^\s/@]{1,200}@")


def mask(text: str, *known: str | None) -> str:
    """Return `text` without the `known` secrets, and without anything with the form of a key.

    A very long text is cut to its beginning.
    """
    text = text[:_MAX_TEXT]
    for secret in known:
        if secret:
            text = text.replace(secret, _HIDDEN)
    text = _USER.sub(_HIDDEN + "@", text)
    text = _SCHEMES.sub(rf"\1 {_HIDDEN}", text)
    text = _NAMED.sub(rf"\1{_HIDDEN}", text)
    return _KEYS.sub(_HIDDEN, text)
