"""What the policy reads of its workflow: problems of the text, or an outline of the run.

It never says whether the answer is right, and it has no hidden test and no reference.
"""

from collections.abc import Iterator
from typing import Final

from assay_reward.workflows.execution.run import RunEnding, WorkflowRun
from assay_reward.workflows.execution.trace import TraceNode
from assay_reward.workflows.playing.played import PlayedWorkflow
from assay_shared.errors import InvalidInput
from assay_shared.text.masking import mask

#: The reply by which the policy keeps its last workflow.
KEEP: Final = "keep"
_MAX_LINES, _MAX_LINE, _MAX_ANSWER = 30, 160, 400
_SHOWN_KINDS = frozenset({"operator", "tests", "pass", "branch"})


def observation(played: PlayedWorkflow, turns_left: int) -> str:
    """Return what the policy reads after a turn, with the turns left."""
    if played.run is None:
        said = _invalid(played)
    else:
        said = "\n".join([*_repaired(played), *_outline(played.run)])
    return f"{said}\nTurns left: {turns_left}. Write the workflow again, or reply: {KEEP}"


def without_keep(turns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the turns up to the workflow that counts; turns that keep it are left out.

    Raises:
        InvalidInput: the policy writes another workflow after it has kept one.
    """
    kept = [_is_keep(turn) for turn in turns]
    if True not in kept[1:]:
        return turns
    first = kept.index(True, 1)
    if not all(kept[first:]):
        raise InvalidInput(
            f"turn {first + 1} keeps the workflow and ends the episode; give no turns after it",
            field="turns",
        )
    return turns[:first]


def keeps(turns: tuple[str, ...]) -> bool:
    """Return True if a turn keeps the workflow of the turns before; errors as in `without_keep`."""
    return len(without_keep(turns)) < len(turns)


def _is_keep(turn: str) -> bool:
    return turn.strip().strip(".`").lower() == KEEP


def _invalid(played: PlayedWorkflow) -> str:
    problems = "\n".join(_line(one) for one in played.read.problems[:_MAX_LINES])
    return f"The workflow is not valid.\n{problems}"


def _repaired(played: PlayedWorkflow) -> Iterator[str]:
    if played.read.repairs:
        yield f"Repaired before the run ({len(played.read.repairs)}):"
        yield from (_line(one) for one in played.read.repairs[:_MAX_LINES])


def _outline(run: WorkflowRun) -> Iterator[str]:
    lines = list(_lines(run.trace, 0))
    yield from lines[:_MAX_LINES]
    if len(lines) > _MAX_LINES:
        yield f"... {len(lines) - _MAX_LINES} more lines"
    cost = run.cost
    yield f"Used: {cost.calls} calls, {cost.tokens} tokens, {cost.programs} programs."
    if run.status is RunEnding.FAULT and run.fault is not None:
        yield f"The workflow was stopped: {_line(run.fault.message)}."
    else:
        yield f"Answer: {(run.answer or '')[:_MAX_ANSWER]}"


def _lines(node: TraceNode, level: int) -> Iterator[str]:
    for child in node.children:
        if child.kind not in _SHOWN_KINDS:
            continue
        place = f" (line {child.line})" if child.line else ""
        note = f" [{child.note}]" if child.note else ""
        name = f"pass {child.name}" if child.kind == "pass" else child.name
        tokens = child.total_tokens()
        text = f"{name}{place}: {tokens} tokens{note} {child.reply}"
        yield "  " * min(level, 6) + _line(text)
        yield from _lines(child, level + 1)


def _line(text: str) -> str:
    """Return a text on one line, cut, and without anything that looks like a key."""
    flat = " ".join(text.split())
    return mask(flat if len(flat) <= _MAX_LINE else flat[:_MAX_LINE] + "...")
