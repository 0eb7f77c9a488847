"""A gate of a stage: a number, its bounds, and the consequence of each verdict."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assay_shared.settings.run_file import Config

#: A path in the numbers of a stage; its parts are separated by dots.
MetricPath = Annotated[str, Field(pattern=r"^[\w@-]+(\.[\w@-]+)*$", max_length=200)]
GateFollows = Literal["stop", "continue"]


class GateConfig(Config):
    """A bound for a number of the stage's results, with what follows from each verdict.

    One bound (`at_least`, `at_most`) both passes and fails. A pair of bounds leaves a gap between
    them, in which the gate is INCONCLUSIVE: `pass_at_least` with `fail_below`, or `pass_at_most`
    with `fail_above`.
    """

    #: One of the sets of an evaluation.
    set: str | None = None
    metric: MetricPath = "accepted_at_1"
    at_least: float | None = None
    at_most: float | None = None
    pass_at_least: float | None = None
    fail_below: float | None = None
    pass_at_most: float | None = None
    fail_above: float | None = None
    on_fail: GateFollows = "stop"
    on_inconclusive: GateFollows = "continue"
    #: Advice to a person after FAIL or INCONCLUSIVE.
    action: str = ""
    #: Advice after INCONCLUSIVE, if it differs.
    action_between: str = ""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        rising = (self.pass_at_least is None) == (self.fail_below is None)
        falling = (self.pass_at_most is None) == (self.fail_above is None)
        if not rising or not falling:
            raise ValueError("give pass_at_least with fail_below, or pass_at_most with fail_above")
        rules = (self.at_least, self.at_most, self.pass_at_least, self.pass_at_most)
        if sum(one is not None for one in rules) != 1:
            raise ValueError(
                "give exactly one of at_least and at_most, or of the pairs "
                "pass_at_least with fail_below and pass_at_most with fail_above"
            )
        if not self.fails_at <= self.passes_at:
            raise ValueError(
                "the bound to pass has to be the stricter one: fail_below <= pass_at_least, "
                "and pass_at_most <= fail_above"
            )
        return self

    @property
    def is_lower_bound(self) -> bool:
        """True if greater values pass."""
        return self.at_least is not None or self.pass_at_least is not None

    @property
    def sign(self) -> int:
        """1 if greater values pass, else -1: times it, every gate is a lower bound."""
        return 1 if self.is_lower_bound else -1

    @property
    def passes_at(self) -> float:
        """The bound for the whole interval to keep, times `sign`."""
        return self.sign * _given(
            self.at_least, self.at_most, self.pass_at_least, self.pass_at_most
        )

    @property
    def fails_at(self) -> float:
        """The bound for the whole interval to break, times `sign`."""
        return self.sign * _given(self.at_least, self.at_most, self.fail_below, self.fail_above)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bounds as they stand in the file."""
        return tuple(dict.fromkeys(self.sign * one for one in (self.fails_at, self.passes_at)))

    @property
    def told(self) -> str:
        """The rule in words."""
        word = "at least" if self.is_lower_bound else "at most"
        other = "below" if self.is_lower_bound else "above"
        if len(self.bounds) == 1:
            return f"{word} {self.bounds[0]:g}"
        return f"{word} {self.bounds[1]:g}, fails {other} {self.bounds[0]:g}"


def _given(*bounds: float | None) -> float:
    """Return the bound that is given; NaN without one, which compares with nothing."""
    return next((one for one in bounds if one is not None), float("nan"))
