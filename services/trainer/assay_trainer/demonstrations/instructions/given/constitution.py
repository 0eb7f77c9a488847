"""The constitution: principles by which a model criticises and revises its answers."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from assay_shared.settings.run_file import Config, load_config

_MAX_PRINCIPLES = 256


class Principle(Config):
    """A principle: its name, and what the model is asked to criticise and to revise by it."""

    name: str = Field(min_length=1, max_length=100)
    critique_request: str = Field(min_length=1, max_length=10_000)
    revision_request: str = Field(min_length=1, max_length=10_000)


class Constitution(Config):
    """A file of principles."""

    principles: tuple[Principle, ...] = Field(min_length=1, max_length=_MAX_PRINCIPLES)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [one.name for one in self.principles]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two principles are called {name!r}")
        return self


def read_constitution(path: Path) -> Constitution:
    """Return the principles of a file.

    Raises:
        ConfigError: a key is unknown or missing, or the file cannot be read.
    """
    return load_config(Constitution, path)
