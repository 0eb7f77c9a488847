"""Kinds of tasks: the rubric of each, and the texts of its rows."""

from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import ConfigError

#: The rubrics of the reward service itself.
BUILT_IN = (
    "choice",
    "code.adaptive",
    "code.blend",
    "code.dense",
    "code.repair",
    "code.rltf",
    "code.sparse",
    "instructions",
    "json",
    "math",
    "math.dapo",
    "or_debug.faithful",
    "or_debug.seed",
    "qa",
    "qa.verified",
    "workflow",
)


@dataclass(frozen=True)
class TaskKind:
    """A kind of task for rows with a prompt and an answer.

    `ask` follows the prompt. `gold` is the answer in the policy's form, with {answer} for
    the column.
    """

    rubric: str
    ask: str
    gold: str
    max_tokens: int


KINDS = {
    "math": TaskKind(
        "math",
        "Work it out step by step. Write the number alone, after ####, in the last line.",
        "#### {answer}",
        512,
    ),
    "qa": TaskKind("qa", "Answer shortly.", "{answer}", 128),
}


def kind_of(rubric: str) -> TaskKind:
    """Return the kind of a rubric; an own rubric's rows are written as those of `qa`."""
    for kind in KINDS.values():
        if rubric == kind.rubric or rubric.startswith(f"{kind.rubric}."):
            return TaskKind(rubric, kind.ask, kind.gold, kind.max_tokens)
    return TaskKind(rubric, "", "{answer}", 512)


def check_rubric(name: str, own: Path | None) -> None:
    """Check that the reward service has a rubric.

    Args:
        own: the folder of own rubrics, ASSAY_REWARD_RUBRICS.

    Raises:
        ConfigError: it has none of this name.
    """
    files = [] if own is None else sorted(path.stem for path in own.glob("*.yaml"))
    if name not in (*BUILT_IN, *files):
        raise ConfigError(
            f"there is no rubric {name!r:.100}",
            field="--rubric",
            hint=f"there are {', '.join((*BUILT_IN, *files))}; ASSAY_REWARD_RUBRICS names a folder "
            "of your own",
        )
