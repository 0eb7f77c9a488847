"""Checks of addresses and names of keys in a configuration; a refused value is never shown."""

import re
from typing import Final
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from assay_shared.settings.run_file import UNSHOWN

_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
_INSTEAD: Final = "name the key in api_key_env or api_key_file"


def checked_address(url: str) -> str:
    """Return the address of an endpoint. Raises for one that is not http, or may hold a key."""
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises if it is not a number
    except ValueError:
        is_http = False
    if not is_http:
        raise _refusal("is not an http address, such as https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise _refusal(f"has a user or a password; {_INSTEAD}")
    if parts.query or parts.fragment:
        raise _refusal(f"has a query or a fragment, which may hold a key; {_INSTEAD}")
    return url


def checked_variable(name: str) -> str:
    """Return the name of an environment variable. Raises for another text, perhaps a key."""
    if not _VARIABLE.fullmatch(name):
        raise _refusal(
            "is not the name of an environment variable (A to Z, 0 to 9 and _); "
            "set the key there, and write its name here"
        )
    return name


def _refusal(message: str) -> PydanticCustomError:
    return PydanticCustomError(UNSHOWN, message)
