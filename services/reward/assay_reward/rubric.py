"""Rubrics: the components of a reward and their aggregation, checked when loaded."""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from operator import mul
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Discriminator,
    Field,
    JsonValue,
    PrivateAttr,
    Tag,
    ValidationInfo,
    model_validator,
)

from assay_reward.own.source import Allowed, Function, OwnSource
from assay_reward.verifiers import VERIFIERS
from assay_reward.verifiers.own import own_verifier
from assay_reward.verifiers.verifier import ValueRange, Verifier
from assay_shared.errors import NotFound
from assay_shared.settings.run_file import Config, parse_config, read_yaml
from assay_shared.types import Normalisation, RubricInfo

BUILT_IN = Path(__file__).parent / "rubrics"
_NAME = r"[a-z][a-z0-9_]*"


class Aggregation(StrEnum):
    """Aggregation of the components' values into a reward.

    `sum`: of weight * value. `product`: of the values. `lexicographic`: a step in an earlier
    component is worth more than all later components together; the reward is in [0, 1].
    """

    SUM = "sum"
    PRODUCT = "product"
    LEXICOGRAPHIC = "lexicographic"


def _kind_of_source(value: object) -> str:
    return "name" if isinstance(value, str) else "own"


#: A built-in verifier by its name, or a user-defined reward.
Source = Annotated[
    Annotated[str, Tag("name")] | Annotated[OwnSource, Tag("own")], Discriminator(_kind_of_source)
]
#: An end of a range. Sums of larger values might not be finite.
Bound = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]


class OnTooHard(StrEnum):
    """Result for an answer whose measurement takes too much time or memory.

    `wrong`: the component's lowest value. `fail`: no reward.
    """

    WRONG = "wrong"
    FAIL = "fail"


class ComponentConfig(Config):
    """A component of a rubric.

    With `gate`, an answer with a lower value gets the rubric's lowest reward, and the other
    components are not measured. The gate itself does not count in the reward.
    """

    #: A built-in verifier's name; or {python: FILE.py:FUNCTION}, or {url: ...}.
    verifier: Source
    #: The component's name; by default the name of the verifier or function.
    name: str = Field(default="", pattern=rf"^{_NAME}$|^$")
    #: Options of the verifier.
    options: dict[str, JsonValue] = Field(default={})
    #: Weight in a sum.
    weight: float | None = Field(default=None, gt=0, le=1000, allow_inf_nan=False)
    #: The lowest value that passes. A gate does not count in the reward.
    gate: float | None = Field(default=None, allow_inf_nan=False)
    #: Values outside this range count as its nearer end.
    clip: tuple[Bound, Bound] | None = None
    #: For a lexicographic order: the number of steps in the component's range.
    levels: int = Field(default=1, ge=1, le=1000)

    _kind: Verifier[Any] = PrivateAttr()
    _options: Config = PrivateAttr()
    _function: Function | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _usable(self, info: ValidationInfo) -> Self:
        if isinstance(self.verifier, OwnSource):
            self._function = self.verifier.find_function(info.context or Allowed())
            self._kind = own_verifier(self.verifier, self._function)
            self._check_label()
        elif self.verifier in VERIFIERS:
            self._kind = VERIFIERS[self.verifier]
        else:
            raise ValueError(
                f"no verifier is called {self.verifier!r}; known: {', '.join(sorted(VERIFIERS))}"
            )
        source = f"options of {self.verifier}"
        self._options = parse_config(self.kind.options, self.options, source)
        self._check_span()
        return self

    def _check_label(self) -> None:
        if not re.fullmatch(_NAME, self.label):
            raise ValueError(f"{self.label} is not a component's name: give it one, as name")

    def _check_span(self) -> None:
        own, span = self.kind.span(self._options), self.span
        if not span.is_finite:
            raise ValueError(
                f"{self.label} is unbounded: from {own.low:g} to {own.high:g}; give it a clip"
            )
        if not span.low < span.high:
            raise ValueError(
                f"{self.label} cannot change anything: it goes from {own.low:g} to {own.high:g}, "
                f"and its clip leaves {span.low:g} to {span.high:g}"
            )
        if self.gate is not None and not span.low < self.gate <= span.high:
            raise ValueError(
                f"the gate of {self.label} is {self.gate:g}: within {span.low:g} to {span.high:g} "
                "it must be above the lowest and may be the highest"
            )

    @cached_property
    def kind(self) -> Verifier[Any]:
        return self._kind

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the named function's file, or None without a function."""
        return None if self._function is None else self._function.digest

    @cached_property
    def parsed_options(self) -> Config:
        return self._options

    @cached_property
    def label(self) -> str:
        if self.name:
            return self.name
        return self.verifier if isinstance(self.verifier, str) else self.verifier.label

    @cached_property
    def span(self) -> ValueRange:
        own = self.kind.span(self._options)
        if self.clip is None:
            return own
        return ValueRange(max(own.low, self.clip[0]), min(own.high, self.clip[1]))


class Recommendation(Config):
    """Settings that a rubric's author recommends to trainers; they change no reward."""

    #: How to turn the rewards into advantages.
    normalise: Normalisation | None = None


class Rubric(Config):
    """A named reward: gates first, then all other components, or no reward at all."""

    #: The name used in requests.
    name: str = Field(pattern=r"^[a-z][a-z0-9_.-]*$")
    #: A one-line description.
    description: str
    #: How to aggregate the components' values.
    aggregate: Aggregation = Aggregation.SUM
    #: For the trainers that use it.
    recommend: Recommendation = Recommendation()
    #: Result for an answer whose measurement takes too much time or memory.
    too_hard: OnTooHard = OnTooHard.WRONG
    #: The components; gates are measured first.
    components: tuple[ComponentConfig, ...] = Field(min_length=1, max_length=32)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [component.label for component in self.components]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"component {twice[0]!r} is listed twice; give one of them a name")
        counted = [(c.verifier, json.dumps(c.options, sort_keys=True)) for c in self.counted]
        if len(set(counted)) < len(counted):
            raise ValueError("two components measure the very same thing")
        return self

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if not self.counted:
            raise ValueError("all components are gates: nothing counts")
        for component in self.counted:
            weighted = component.weight is not None
            if weighted != (self.aggregate is Aggregation.SUM):
                raise ValueError(
                    f"{component.label}: each component of a sum needs a weight, and none of a "
                    f"{self.aggregate} has one"
                )
            if self.aggregate is Aggregation.PRODUCT and component.span.low < 0:
                raise ValueError(f"{component.label} can be negative: a product would flip signs")
        by_component = self.recommend.normalise is Normalisation.COMPONENTS
        if by_component and self.aggregate is not Aggregation.SUM:
            raise ValueError("recommend: normalise: components needs aggregate: sum")
        return self

    @cached_property
    def gates(self) -> tuple[ComponentConfig, ...]:
        return tuple(c for c in self.components if c.gate is not None)

    @cached_property
    def counted(self) -> tuple[ComponentConfig, ...]:
        """The components of the reward: all but the gates."""
        return tuple(c for c in self.components if c.gate is None)

    @cached_property
    def scorer(self) -> str:
        """The rubric's name and hash; any change of the computation changes the hash."""
        content = self.model_dump(mode="json", exclude={"description", "name", "recommend"})
        digests = [component.digest for component in self.components if component.digest]
        text = json.dumps(content | ({"functions": digests} if digests else {}), sort_keys=True)
        return f"{self.name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def reward(self, values: Sequence[float]) -> float:
        """Return the reward for the values of the counted components, in their order."""
        clipped = [
            component.span.clip(value)
            for component, value in zip(self.counted, values, strict=True)
        ]
        if self.aggregate is Aggregation.SUM:
            return math.fsum(map(mul, self._weights, clipped))
        if self.aggregate is Aggregation.PRODUCT:
            return math.prod(clipped)
        return self._rank(clipped)

    def _rank(self, values: Sequence[float]) -> float:
        """Return the values as digits of a number in [0, 1], the most significant first."""
        number, size = 0, 1
        for component, value in zip(self.counted, values, strict=True):
            span = component.span
            # Otherwise rounding could put a value on a boundary into the step below it.
            share = (value - span.low) / (span.high - span.low) + 1e-9
            number = number * (component.levels + 1) + int(share * component.levels)
            size *= component.levels + 1
        return number / (size - 1)

    @cached_property
    def _weights(self) -> list[float]:
        return [component.weight or 0.0 for component in self.counted]

    @property
    def lowest_values(self) -> list[float]:
        return [component.span.low for component in self.counted]

    def shares(self) -> dict[str, float]:
        """Return each component's share in moving the reward, the others at their best; sums to 1.

        Weights alone say little: a component from -50 to 100 with a weight of 0.5 moves the reward
        by 75, a component from 0 to 20 with a weight of 0.3 by 6.
        """
        best = [component.span.high for component in self.counted]
        top = self.reward(best)
        swings = {
            component.label: top - self.reward([*best[:at], component.span.low, *best[at + 1 :]])
            for at, component in enumerate(self.counted)
        }
        whole = sum(swings.values())
        return {name: swing / whole for name, swing in swings.items()}

    def info(self) -> RubricInfo:
        return RubricInfo(
            name=self.name,
            scorer=self.scorer,
            description=self.description,
            recommended_normalise=self.recommend.normalise,
            lowest=self.reward(self.lowest_values),
            highest=self.reward([component.span.high for component in self.counted]),
            shares=self.shares(),
        )


class Rubrics:
    """All rubrics of a service, by name."""

    def __init__(self, extra: Path | None, allowed: Allowed | None = None) -> None:
        """Load the built-in rubrics, then `extra`, which may replace built-in rubrics.

        Args:
            extra: a folder of rubrics, or a single file.
            allowed: the functions and URLs allowed in `extra`; without a root, only functions in
                its folder.

        Raises:
            ConfigError: a file is not a valid rubric; names the file and the key.
        """
        self._by_name: dict[str, Rubric] = {}
        self._load(BUILT_IN, Allowed())
        if extra is not None:
            folder = extra if extra.is_dir() else extra.parent
            allowed = replace(allowed or Allowed(), folder=folder)
            self._load(extra, replace(allowed, root=allowed.root or folder))

    def _load(self, path: Path, allowed: Allowed) -> None:
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else (path,):
            rubric = parse_config(Rubric, read_yaml(file), source=str(file), context=allowed)
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
