"""A reply as it was played: how it was read, its run, and the numbers of both."""

from dataclasses import dataclass

from pydantic import JsonValue

from assay_reward.workflows.execution.run import RunCost, RunEnding, WorkflowRun
from assay_reward.workflows.execution.trace import TraceNode
from assay_reward.workflows.operators.support.texts import shortened
from assay_reward.workflows.operators.table import OPERATORS
from assay_reward.workflows.playing.reading import ReadWorkflow

#: Prefix of all numbers.
PREFIX = "workflow_"
#: Characters of all texts of a trace in the evidence of a sample.
_MAX_TEXTS = 32_768


@dataclass(frozen=True)
class PlayedWorkflow:
    """A reply with its run. Without a run the reply holds no valid workflow.

    `before` is the cost of the runs of earlier turns, whose results the policy has read.
    """

    read: ReadWorkflow
    run: WorkflowRun | None
    before: RunCost | None = None

    @property
    def cost(self) -> RunCost | None:
        """The cost of the whole episode; None if nothing ran."""
        if self.run is None:
            return self.before
        return self.run.cost if self.before is None else self.before + self.run.cost

    @property
    def answer(self) -> str | None:
        """The workflow's own answer; never that of a fallback."""
        return None if self.run is None else self.run.answer

    @property
    def is_valid(self) -> bool:
        """True if the reply is a valid workflow, perhaps after repairs."""
        return self.run is not None

    @property
    def has_no_fault(self) -> bool:
        """True if the workflow is valid and stayed within its budgets."""
        return self.run is not None and self.run.status is not RunEnding.FAULT

    def measures(self) -> dict[str, float]:
        """Return the numbers of this reply for the metrics of a run, by name."""
        run = self.run
        found = {
            "valid": float(self.is_valid),
            "repaired": float(bool(self.read.repairs)),
            "num_repairs": float(len(self.read.repairs)),
            "success": float(self.answer is not None),
            "fault": float(run is not None and run.status is RunEnding.FAULT),
            "failed": float(run is not None and run.status is RunEnding.FAILED),
            "fallback": float(_has_fallback(run)),
        }
        if (cost := self.cost) is not None:
            found |= {
                "calls": float(cost.calls),
                "programs": float(cost.programs),
                "tokens": float(cost.tokens),
                "depth": float(cost.depth),
                "operator_cost": cost.operator_cost,
                "seconds": cost.seconds,
                "money": cost.money,
            }
            used = cost.operators
            found |= {f"operator_{name}": float(used.get(name, 0)) for name in OPERATORS}
        return {PREFIX + name: value for name, value in found.items()}

    def evidence(self, trace_chars: int) -> dict[str, JsonValue]:
        """Return for people what was played, with the texts of the trace cut to this length."""
        found: dict[str, JsonValue] = {
            "form": self.read.form,
            "source": shortened(self.read.source, max(trace_chars, 400)),
            "problems": list(self.read.problems),
            "repairs": list(self.read.repairs),
        }
        if self.run is not None:
            run = self.run.model_copy(update={"trace": cut(self.run.trace, trace_chars)})
            if run.fallback is not None:
                short = cut(run.fallback.trace, trace_chars)
                fallback = run.fallback.model_copy(update={"trace": short})
                run = run.model_copy(update={"fallback": fallback})
            if self.before is not None:
                found["before"] = self.before.model_dump(mode="json", exclude_defaults=True)
            found["run"] = run.model_dump(mode="json", exclude_defaults=True)
        return {"workflow": found}


def _has_fallback(run: WorkflowRun | None) -> bool:
    return run is not None and run.fallback is not None and run.fallback.answer is not None


def cut(trace: TraceNode, most: int) -> TraceNode:
    """Return a trace with its prompts and replies cut to `most` characters; 0 leaves them out.

    A trace of many parts has less of each: evidence travels with each sample.
    """
    return _cut(trace, min(most, _MAX_TEXTS // (2 * trace.num_nodes())))


def _cut(node: TraceNode, most: int) -> TraceNode:
    texts = {
        name: shortened(value, most) if most else ""
        for name, value in (("prompt", node.prompt), ("reply", node.reply))
    }
    children = tuple(_cut(child, most) for child in node.children)
    return node.model_copy(update={**texts, "children": children})
