"""Files of `assay up` in its folder: addresses and a token for commands started there."""

import os
import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_shared.settings.key_file import write_secret

VARIABLES = "assay.env"
_TOKEN, _KEYS = "token", "keys.json"
_PROCESS = "# of process "
_MAX_BYTES = 2**16


@dataclass(frozen=True)
class Access:
    """The token of a mesh, and the variables by which its services get the token."""

    token: str
    variables: dict[str, str]
    #: Text for the user about a newly made token; empty for an existing token.
    told: str

    @classmethod
    def of(cls, home: Path) -> "Access":
        """Return access by the environment's token, or by the token in `home`, made if missing.

        Raises:
            ConfigError: a variable cannot be used.
        """
        home = home.resolve()
        home.mkdir(parents=True, exist_ok=True)
        variables: dict[str, str] = {}
        settings = read_settings(ServiceSettings)
        if settings.client_tokens_file is None and not settings.client_tokens:
            if not (home / _KEYS).exists():
                write_secret(home / _KEYS, "{}\n")
            variables["ASSAY_CLIENT_TOKENS_FILE"] = str(home / _KEYS)
        given = settings.token_of("trainer")
        if given is not None:
            return cls(given, variables, "")
        file, told = home / _TOKEN, ""
        if not file.exists():
            write_secret(file, secrets.token_hex(32) + "\n")
            told = f"\ntoken      {file.read_text().strip()}  (kept in {file})"
        variables["ASSAY_TOKEN_FILE"] = str(file)
        return cls(file.read_text().strip(), variables, told)


@contextmanager
def written(home: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Keep the variables in a file of `home` within the block, for commands to read."""
    file = home / VARIABLES
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    write_secret(file, "\n".join([f"{_PROCESS}{os.getpid()}", *lines, ""]))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def read_variables(home: Path) -> dict[str, str]:
    """Return the variables of the mesh running in `home`, or an empty dict without a mesh."""
    file = home / VARIABLES
    try:
        if file.stat().st_size > _MAX_BYTES or file.stat().st_uid != os.getuid():
            return {}
        first, *lines = file.read_text().splitlines()
        os.kill(int(first.removeprefix(_PROCESS)), 0)
    except (OSError, ValueError):
        return {}
    words = (shlex.split(line) for line in lines)
    pairs = (pair[1].partition("=") for pair in words if len(pair) == 2 and pair[0] == "export")
    return {name: value for name, _, value in pairs if name.startswith("ASSAY_")}
