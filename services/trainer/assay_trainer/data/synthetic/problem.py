"""A family's problem, made from its parameters."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assay_shared.types import TestCase


@dataclass(frozen=True)
class SyntheticProblem:
    """The words, the right answer, the tests of a function, and wrong answers by kind."""

    words: str
    gold: str
    mistakes: Mapping[str, str]
    tests: tuple[TestCase, ...] = ()


Family = Callable[[random.Random], SyntheticProblem]
