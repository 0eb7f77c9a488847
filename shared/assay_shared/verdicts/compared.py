"""Answers with the reward of Assay and the reward of usual practice, in their groups."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from assay_shared.verdicts.advantages import advantages_of


class Nature(StrEnum):
    """The truth about an answer, if its author knows it."""

    RIGHT = "right"
    WRONG = "wrong"
    CHEAT = "cheat"
    UNKNOWN = ""


class Harm(StrEnum):
    """An effect of a reward that differs from the truth."""

    CHEAT_PAID = "a cheat was paid"
    WRONG_PAID = "a wrong answer was paid"
    RIGHT_REFUSED = "a right answer got nothing"
    FAILURE_AS_ZERO = "a failure was read as 0"
    NONE = ""


@dataclass(frozen=True)
class GivenReward:
    """A reward and its reason. `value` is None for a failure: nothing was measured."""

    value: float | None
    #: The verdict in a few words: accepted, wrong_answer, failed: sandbox.
    verdict: str
    #: What the verdict rests on.
    reason: str = ""


@dataclass(frozen=True)
class ComparedAnswer:
    """An answer, and both rewards of it."""

    text: str
    assay: GivenReward
    #: The reward that usual practice would train on; never None.
    usual: GivenReward
    nature: Nature = Nature.UNKNOWN
    #: For people: what the answer does.
    note: str = ""
    #: Earlier verdicts of Assay on this answer, oldest first: it was asked again after a failure.
    earlier: tuple[GivenReward, ...] = ()

    @property
    def harm(self) -> Harm:
        """The harm of usual practice."""
        failed = self.assay.value is None or bool(self.earlier)
        return Harm.FAILURE_AS_ZERO if failed and not self.usual.value else self._harm(self.usual)

    @property
    def own_harm(self) -> Harm:
        """The harm of Assay's verdict; a failure does none, since nothing is trained on it."""
        return self._harm(self.assay)

    def _harm(self, reward: GivenReward) -> Harm:
        if reward.value is None:
            return Harm.NONE
        if reward.value > 0:
            paid = {Nature.CHEAT: Harm.CHEAT_PAID, Nature.WRONG: Harm.WRONG_PAID}
            return paid.get(self.nature, Harm.NONE)
        return Harm.RIGHT_REFUSED if self.nature is Nature.RIGHT else Harm.NONE


@dataclass(frozen=True)
class ComparedGroup:
    """The answers to one task, with an advantage of each under both rewards."""

    name: str
    prompt: str
    answers: tuple[ComparedAnswer, ...]
    #: The way in which Assay scores them, and the usual way, in a few words.
    rubric: str = ""
    practice: str = ""

    @cached_property
    def advantages(self) -> list[float | None]:
        """Advantages of Assay's rewards, in order; None for an answer without a reward."""
        return advantages_of([one.assay.value for one in self.answers])

    @cached_property
    def usual_advantages(self) -> list[float]:
        """Advantages of usual practice, in order: a missing reward counts as 0."""
        found = advantages_of([one.usual.value or 0.0 for one in self.answers])
        return [0.0 if one is None else one for one in found]

    @property
    def rows(self) -> list[tuple[ComparedAnswer, float | None, float]]:
        """Each answer with its two advantages."""
        return list(zip(self.answers, self.advantages, self.usual_advantages, strict=True))

    @property
    def num_harmed(self) -> int:
        """The number of answers with a harm of usual practice."""
        return sum(one.harm is not Harm.NONE for one in self.answers)


@dataclass(frozen=True)
class Totals:
    """Counts over all groups: answers by nature, and harms of usual practice and of Assay."""

    num_groups: int
    num_answers: int
    natures: Counter[Nature]
    usual: Counter[Harm]
    assay: Counter[Harm]
    #: Answers without a reward, and those with a reward after an earlier failure.
    num_failed: int
    num_recovered: int
    #: Right answers with a negative advantage, and other answers with a positive one.
    usual_misled: int
    assay_misled: int
    #: The lowest advantage that usual practice gives to a right answer.
    worst: float


def totals_of(groups: Sequence[ComparedGroup]) -> Totals:
    """Return the counts over all groups."""
    answers = [one for group in groups for one in group.answers]
    rows = [row for group in groups for row in group.rows]
    return Totals(
        num_groups=len(groups),
        num_answers=len(answers),
        natures=Counter(one.nature for one in answers),
        usual=Counter(one.harm for one in answers),
        assay=Counter(one.own_harm for one in answers),
        num_failed=sum(one.assay.value is None for one in answers),
        num_recovered=sum(bool(one.earlier) and one.assay.value is not None for one in answers),
        usual_misled=sum(_misleads(one.nature, usual) for one, _, usual in rows),
        assay_misled=sum(_misleads(one.nature, own) for one, own, _ in rows),
        worst=min((usual for one, _, usual in rows if one.nature is Nature.RIGHT), default=0.0),
    )


def _misleads(nature: Nature, advantage: float | None) -> bool:
    """Return True if an advantage pushes an answer away from what is right."""
    if advantage is None or nature is Nature.UNKNOWN:
        return False
    return advantage < 0 if nature is Nature.RIGHT else advantage > 0
