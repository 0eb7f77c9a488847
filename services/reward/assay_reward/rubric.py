"""Rubrics: named, weighted sums of verifiers, checked when they are loaded."""

import hashlib
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from assay_reward.verifiers import VERIFIERS
from assay_shared.config import Config, parse_config, read_yaml
from assay_shared.errors import NotFound
from assay_shared.types import RubricInfo

BUILT_IN = Path(__file__).parent / "rubrics"


class ComponentConfig(Config):
    """One term: a verifier's value in [0, 1] times `weight`."""

    verifier: str
    weight: float = Field(gt=0, le=1000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.verifier not in VERIFIERS:
            raise ValueError(
                f"no verifier is called {self.verifier!r}; known: {', '.join(sorted(VERIFIERS))}"
            )
        return self


class Rubric(Config):
    """reward = sum of weight * value over the components; all of them, or no reward at all."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_.-]*$")
    description: str
    components: tuple[ComponentConfig, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [component.verifier for component in self.components]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"verifier {twice[0]!r} is listed twice")
        return self

    @property
    def scorer(self) -> str:
        """The rubric's identity: any change to what it computes changes the hash."""
        terms = [f"{c.verifier}*{c.weight!r}" for c in self.components]
        return f"{self.name}@{hashlib.sha256('+'.join(terms).encode()).hexdigest()[:12]}"

    def info(self) -> RubricInfo:
        whole = sum(component.weight for component in self.components)
        return RubricInfo(
            name=self.name,
            scorer=self.scorer,
            description=self.description,
            shares={c.verifier: c.weight / whole for c in self.components},
        )


class Rubrics:
    """All rubrics of a service, by name."""

    def __init__(self, extra: Path | None) -> None:
        """Load the built-in ones and those in `extra`, which may replace them.

        Raises:
            ConfigError: a file is not a valid rubric; names the file and the key.
        """
        self._by_name: dict[str, Rubric] = {}
        for folder in (BUILT_IN, extra):
            for file in sorted(folder.glob("*.yaml")) if folder else ():
                rubric = parse_config(Rubric, read_yaml(file), source=str(file))
                self._by_name[rubric.name] = rubric

    def find(self, name: str) -> Rubric:
        if name not in self._by_name:
            raise NotFound(
                f"no rubric is called {name!r}",
                field="rubric",
                hint=f"known: {', '.join(sorted(self._by_name))}",
            )
        return self._by_name[name]

    def all(self) -> list[Rubric]:
        return [self._by_name[name] for name in sorted(self._by_name)]
