"""What a person has overruled: a gate with its bound and the number that was measured."""

from collections.abc import Iterable, Sequence

from assay_shared.types.wire import Wire
from assay_trainer.pipelines.gating.stopping import stopping_gates
from assay_trainer.pipelines.stage_folder import GateResult, StageFolder, Verdict


class Overruled(Wire):
    """A line of overruled.jsonl: a gate that does not stop the pipeline, and why."""

    stage: str
    inputs: str
    set: str
    metric: str
    bound: str
    value: float | None
    verdict: Verdict
    reason: str
    time: float

    @classmethod
    def of(cls, gate: GateResult, folder: StageFolder, reason: str, time: float) -> "Overruled":
        """Return the line that overrules this gate of a stage."""
        return cls(
            stage=folder.name,
            inputs=folder.inputs,
            set=gate.set,
            metric=gate.metric,
            bound=gate.bound,
            value=gate.value,
            verdict=gate.verdict,
            reason=reason,
            time=time,
        )

    def covers(self, gate: GateResult, folder: StageFolder) -> bool:
        """Return True if it was given for this gate, its number, and these inputs of the stage."""
        ours = (self.stage, self.inputs, self.set, self.metric, self.bound, self.value)
        theirs = (folder.name, folder.inputs, gate.set, gate.metric, gate.bound, gate.value)
        return ours == theirs and self.verdict == gate.verdict


def still_stopping(
    gates: Sequence[GateResult], folder: StageFolder, overruled: Iterable[Overruled]
) -> list[GateResult]:
    """Return the gates of a stage that stop the pipeline and that no line overrules."""
    lines = list(overruled)
    return [
        gate
        for gate in stopping_gates(gates)
        if not any(line.covers(gate, folder) for line in lines)
    ]
