"""The sample funnel: what became of each sample that the run asked for."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from assay_shared.types import FailureClass
from assay_trainer.events import StepEvent

_FAILURE_WORDS = {
    FailureClass.CALLER: "unusable task or request",
    FailureClass.SANDBOX: "sandbox failed",
    FailureClass.JUDGE: "judge failed",
    FailureClass.EXECUTOR: "executor failed",
    FailureClass.NETWORK: "network failed",
    FailureClass.OVERLOAD: "a service was overloaded",
    FailureClass.BUDGET: "a budget was spent",
    FailureClass.INTERNAL: "a fault inside a service",
}
_REFUSAL_WORDS = {"too_old": "too old", "unknown_version": "of unknown weights"}


@dataclass(frozen=True)
class FunnelStage:
    """A stage of the funnel; groups or samples are None where events do not tell.

    `query` is a filter of samples that shows the stored samples; `kind` is kept or lost.
    """

    name: str
    groups: int | None
    samples: int | None
    kind: str
    query: str = ""
    note: str = ""

    def share(self, asked: int | None) -> float | None:
        """Return the share of the samples that were asked for."""
        return self.samples / asked if asked and self.samples is not None else None


def funnel(steps: Collection[StepEvent], group_size: int | None) -> list[FunnelStage]:
    """Return the stages of all steps together; `group_size` is of the run's configuration."""
    if not steps:
        return []

    def samples_of(groups: int) -> int | None:
        return None if group_size is None else groups * group_size

    played = sum(one.num_played for one in steps)
    failures: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for one in steps:
        failures.update(one.failures)
        refused.update(one.refused)
    flat = sum(one.num_without_signal for one in steps)
    aside = sum(one.num_set_aside for one in steps)
    generated = _sum([one.num_generated for one in steps])
    scored = sum(sum(one.outcomes.values()) for one in steps)
    found = [
        FunnelStage("asked", played, samples_of(played), "kept"),
        FunnelStage("generated", None, generated, "kept"),
        FunnelStage("scored", None, scored, "kept"),
    ]
    for name, number in sorted(failures.items()):
        words = failure_words(name)
        note = "a group that failed as a whole counts once"
        found.append(FunnelStage(words, None, number, "lost", f"outcome=failed:{name}", note))
    for name, number in sorted(refused.items()):
        words = _REFUSAL_WORDS.get(name, name)
        found.append(FunnelStage(words, number, samples_of(number), "lost", f"reason={name}"))
    if aside:
        found.append(FunnelStage("task set aside", aside, None, "lost", "reason=set_aside"))
    if flat:
        note = "all rewards of the group are equal"
        samples = samples_of(flat)
        found.append(FunnelStage("without signal", flat, samples, "lost", "reason=no_signal", note))
    trained = _sum([one.num_trained for one in steps])
    groups = sum(one.num_groups for one in steps)
    found.append(FunnelStage("trained on", groups, trained, "kept", "kept=trained"))
    return found


def failure_words(name: str) -> str:
    """Return a class of failures in words."""
    return _FAILURE_WORDS.get(FailureClass(name), name) if name in set(FailureClass) else name


def _sum(numbers: list[int | None]) -> int | None:
    """Return the sum; None if a number is unknown."""
    known = [one for one in numbers if one is not None]
    return sum(known) if len(known) == len(numbers) else None
