"""Programs in the executor's replies, and what is told of their runs."""

from assay_reward.workflows.operators.support.texts import derived
from assay_shared.answers.extraction import fenced
from assay_shared.text.reasoning import after_reasoning
from assay_shared.types import ExecutionResult, Status

_TAIL = 1500


def whole_code(reply: str) -> str:
    """Return the longest fenced block of a reply, or the reply without a block."""
    said = after_reasoning(reply)
    blocks = fenced(said)
    return derived(max(blocks, key=len).strip("\n") if blocks else said.strip(), reply)


def what_became(result: ExecutionResult) -> str:
    """Return for the executor how a program ended, with the end of its output."""
    if result.status is Status.ACCEPTED:
        return "It printed nothing." if not result.stdout.strip() else "It ended normally."
    said = result.stderr.strip() or result.message.strip()
    return f"It ended with {result.status.value}. {said[-_TAIL:]}".strip()
