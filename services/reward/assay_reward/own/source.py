"""The source of a user-defined reward in a rubric, checked against the operator's settings."""

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, model_validator

from assay_shared.settings.run_file import Config

_SCHEMES = ("http", "https")


@dataclass(frozen=True)
class Allowed:
    """Functions and URLs allowed by the operator.

    `folder` holds the rubric's file. Functions must lie in `root`, and URLs must begin with an
    entry of `urls`. Without a folder, as for a rubric from a client, no function is allowed.
    """

    folder: Path | None = None
    root: Path | None = None
    urls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Function:
    """A function allowed by the operator, and the SHA-256 of its file."""

    file: Path
    name: str
    digest: str


class OwnSource(Config):
    """A function or a URL. `python`: FILE.py:FUNCTION, relative to the rubric's file."""

    #: The function of the reward, as `rewards/mine.py:score`.
    python: str | None = Field(default=None, pattern=r"^[^\x00:]+\.py:[A-Za-z_][A-Za-z0-9_]*$")
    #: The address that receives the answers; it must be on the operator's list.
    url: str | None = Field(default=None, max_length=2000)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.python is None) == (self.url is None):
            raise ValueError("give either python or url")
        return self

    def __str__(self) -> str:
        return self.python or self.url or ""

    @property
    def label(self) -> str:
        """The function's name, or `url`."""
        return "url" if self.python is None else self.python.rpartition(":")[2]

    def find_function(self, allowed: Allowed) -> Function | None:
        """Return the named function, or None for a URL.

        Raises:
            ValueError: the function does not exist, or the operator does not allow the source.
        """
        if self.python is None:
            self._check_url(allowed.urls)
            return None
        if allowed.folder is None or allowed.root is None:
            raise ValueError("only a rubric in a file of the operator's may name a Python function")
        named, _, name = self.python.rpartition(":")
        file = (allowed.folder / named).resolve()
        if not file.is_relative_to(allowed.root.resolve()):
            raise ValueError(
                f"{named} is outside of the folder for functions (ASSAY_REWARD_PYTHON_ROOT)"
            )
        try:
            source = file.read_bytes()
            tree = ast.parse(source)
        except OSError as error:
            raise ValueError(f"{named} cannot be read: {error.strerror}") from None
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"{named} is not Python: {error}") from None
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if name not in names:
            raise ValueError(f"{named} has no function {name!r} at its top level")
        return Function(file, name, hashlib.sha256(source).hexdigest())

    def _check_url(self, allowed: tuple[str, ...]) -> None:
        parts = _split(self.url or "")
        if not any(_is_below(parts, _split(one)) for one in allowed):
            known = ", ".join(allowed) or "none"
            raise ValueError(f"the operator does not allow this URL (ASSAY_REWARD_URLS: {known})")


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    has_dots = any(part in (".", "..") for part in parts.path.split("/"))
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.username or has_dots:
        raise ValueError(f"{url!r} is not a plain http address")
    if "%" in parts.path or "\\" in url:
        raise ValueError(f"{url!r} has signs that servers read in different ways")
    return parts


def _is_below(url: SplitResult, allowed: SplitResult) -> bool:
    """Return True if a URL is `allowed`, or a path below it on the same host and port."""
    if (url.scheme, url.hostname, _port(url)) != (allowed.scheme, allowed.hostname, _port(allowed)):
        return False
    folder = allowed.path.rstrip("/")
    return url.path == allowed.path or url.path == folder or url.path.startswith(folder + "/")


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)
