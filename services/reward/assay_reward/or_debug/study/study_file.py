"""The file of a study: evaluated policies, their training runs, and goals."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from assay_reward.or_debug.episode.metrics import is_share
from assay_reward.or_debug.evaluate.intervals import (
    ANY_ENDS,
    COUNT_ENDS,
    SHARE_DIFFERENCE_ENDS,
    SHARE_ENDS,
    Ends,
)
from assay_shared.settings.run_file import Config

#: A meter of training runs, apart from the metrics of episodes.
REWARD_VARIANCE = "reward_variance"
PolicyKind = Literal["start", "ablation", "curriculum", "other"]


class StudiedPolicy(Config):
    """A policy: the folder of its evaluation, and of the run that trained it."""

    name: str = Field(min_length=1, max_length=40)
    #: The start is what the others are compared with.
    kind: PolicyKind = "other"
    #: A folder of `assay or-debug evaluate`.
    evaluation: Path
    #: A folder of `assay train`: reward variance and stability are read from it.
    run: Path | None = None


class StudyGoal(Config):
    """Bounds that the interval of a metric must be beyond: touching one is not enough."""

    metric: str
    #: A policy's name; the study's `final` without it.
    policy: str | None = None
    #: Only tasks of this difficulty, such as hard; of all without it.
    difficulty: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    #: True if the bound is for the difference to the start, over the same tasks.
    over_start: bool = False

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("give at_least, at_most, or both")
        low, high = self.ends
        at_least = low if self.at_least is None else self.at_least
        at_most = high if self.at_most is None else self.at_most
        if at_most <= at_least:
            raise ValueError(f"no interval lies between {at_least:g} and {at_most:g}")
        if at_least < low or at_most > high:
            raise ValueError(f"{self.metric} is from {low:g} to {high:g}")
        if (at_least, at_most) == (low, high):
            raise ValueError(f"every policy reaches it: {self.metric} is from {low:g} to {high:g}")
        if self.metric == REWARD_VARIANCE and (self.difficulty or self.over_start):
            raise ValueError("reward_variance is of a training run: no difficulty, no start")
        return self

    @property
    def ends(self) -> Ends:
        """The lowest and the highest value that the goal is about."""
        if is_share(self.metric):
            return SHARE_DIFFERENCE_ENDS if self.over_start else SHARE_ENDS
        return ANY_ENDS if self.over_start else COUNT_ENDS


class StudyFile(Config):
    """A study. Paths are from the working directory."""

    name: str = Field(default="study", min_length=1, max_length=80)
    policies: tuple[StudiedPolicy, ...] = Field(min_length=1, max_length=32)
    #: The policy that the goals are about.
    final: str
    goals: tuple[StudyGoal, ...] = ()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [one.name for one in self.policies]
        if len(set(names)) < len(names):
            raise ValueError("each policy needs its own name")
        evaluated: dict[Path, str] = {}
        for one in self.policies:
            other = evaluated.setdefault(one.evaluation.resolve(), one.name)
            if other != one.name:
                raise ValueError(f"policies {other} and {one.name} have the same evaluation")
        if [one.kind for one in self.policies].count("start") != 1:
            raise ValueError("exactly one policy has kind: start")
        for name in (self.final, *(goal.policy for goal in self.goals)):
            if name is not None and name not in names:
                raise ValueError(f"there is no policy {name!r}; there are {', '.join(names)}")
        return self
