"""Gates that stop a pipeline, in words."""

from collections.abc import Sequence

from assay_trainer.pipelines.gating.gates import told_value
from assay_trainer.pipelines.stage_folder import GateResult


def stopping_gates(gates: Sequence[GateResult]) -> list[GateResult]:
    """Return the gates that let no pipeline continue."""
    return [one for one in gates if one.follows == "stop"]


def gate_told(name: str, gate: GateResult) -> str:
    """Return a gate of a stage with its number and verdict, in words."""
    of = f" of {gate.set}" if gate.set else ""
    return (
        f"gate of {name}: {gate.metric}{of} is to be {gate.bound}: "
        f"{told_value(gate)}: {gate.verdict}"
    )


def gate_hint(gate: GateResult, said: Sequence[str]) -> str:
    """Return what to do about a gate; `said` is what the numbers of its stage say."""
    more = "" if gate.tasks_to_decide is None else f"{gate.tasks_to_decide} tasks would decide; "
    action = "".join(f"{one}; " for one in (gate.action, *said) if one)
    return f"{more}{action}`assay pipeline overrule` continues all the same, with a reason"
