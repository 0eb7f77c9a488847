"""Reads and writes the file of client keys (`ASSAY_CLIENT_TOKENS_FILE`) for `assay keys`."""

import json
import os
import secrets
from datetime import datetime
from pathlib import Path

from pydantic import SecretStr, TypeAdapter, ValidationError

from assay_shared.errors import Conflict, InvalidInput, NotFound
from assay_shared.settings.api_keys import ClientKey, Scope, check_client_names

_KEYS = TypeAdapter(dict[str, ClientKey])
_MAX_BYTES = 2**20


def read_keys(file: Path) -> dict[str, ClientKey]:
    """Return the keys by client; empty if the file does not exist.

    Raises:
        InvalidInput: the file holds something else, or cannot be read. The message holds no token.
    """
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise InvalidInput(f"{file} has more than {_MAX_BYTES} bytes")
        keys = _KEYS.validate_json(file.read_bytes())
        check_client_names(keys)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = [str(file), ".".join(str(part) for part in first["loc"]), first["msg"]]
        raise InvalidInput(": ".join(filter(None, where))) from None
    except ValueError as error:
        raise InvalidInput(f"{file}: {error}") from None
    return keys


def add_key(
    file: Path,
    name: str,
    *,
    scopes: frozenset[Scope] | None = None,
    requests_per_minute: int | None = None,
    expires_at: datetime | None = None,
) -> str:
    """Add a key and return its token of 256 random bits.

    Raises:
        Conflict: a client of this name exists.
        InvalidInput: the name is not a valid client name, or the file holds something else.
    """
    keys = read_keys(file)
    if name in keys:
        raise Conflict(f"there is a key of {name!r}", hint="revoke it, or choose another name")
    token = secrets.token_hex(32)
    keys[name] = ClientKey(
        token=SecretStr(token),
        scopes=scopes,
        requests_per_minute=requests_per_minute,
        expires_at=expires_at,
    )
    try:
        check_client_names(keys)
    except ValueError as error:
        raise InvalidInput(str(error), field="name") from None
    _write(file, keys)
    return token


def revoke_key(file: Path, name: str) -> None:
    """Remove a key; services refuse it within a second.

    Raises:
        NotFound: there is no key of this name.
    """
    keys = read_keys(file)
    if name not in keys:
        raise NotFound(f"there is no key of {name!r} in {file}")
    del keys[name]
    _write(file, keys)


def _write(file: Path, keys: dict[str, ClientKey]) -> None:
    """Replace the file in a single step; only its owner may read it."""
    content = {
        name: key.model_dump(mode="json", exclude_none=True)
        | {"token": key.token.get_secret_value()}
        for name, key in keys.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_secret(file, json.dumps(content, indent=2) + "\n")


def write_secret(file: Path, text: str) -> None:
    """Write a file of mode 0600 in a single step."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    partial.rename(file)
