"""Contamination: held-out tasks found among the training tasks.

Three methods, each blind to some leaks: the same words, shared word n-grams (arXiv 2005.14165,
appendix C), and near duplicates by MinHash and LSH.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import write_atomically
from assay_shared.types import Task
from assay_trainer.checks.leaks.controls import Controlled, check_controls
from assay_trainer.checks.leaks.detector import Detector
from assay_trainer.checks.leaks.documents import Reader
from assay_trainer.checks.leaks.findings import (
    LEAKED,
    MAX_SAMPLES,
    LeakFindings,
    LeakPart,
    Match,
    Method,
)
from assay_trainer.config import LeaksConfig

#: Every training task is read twice: to learn what is boilerplate, and to be searched.
NUM_READINGS = 2


@dataclass(frozen=True)
class LeakFinding:
    """A method's finding in a part. `num_compared` held-out tasks had enough words for it."""

    part: LeakPart
    method: Method
    num_compared: int
    num_pairs: int
    matches: list[Match]

    @property
    def num_found(self) -> int:
        return len(self.matches)

    @property
    def share(self) -> float:
        return self.num_found / self.num_compared if self.num_compared else 0.0

    def row(self) -> dict[str, object]:
        """Return the finding as JSON."""
        return {
            "part": self.part,
            "method": self.method,
            "num_compared": self.num_compared,
            "num_found": self.num_found,
            "share": self.share,
            "num_pairs": self.num_pairs,
            "samples": [match.sample() for match in self.matches[:MAX_SAMPLES]],
        }


@dataclass(frozen=True)
class Leaks:
    """All findings, and the controls to prove the check can find leaks.

    A held-out task has leaked if a method of `LEAKED` found its prompt. Gold answers are counted
    separately: two tasks may share a solution.
    """

    num_training: int
    num_held_out: int
    findings: list[LeakFinding]
    leaked: list[str]
    controls: list[Controlled]

    @property
    def leaked_share(self) -> float:
        return len(self.leaked) / self.num_held_out

    def refuse(self, max_share: float) -> None:
        """
        Raises:
            DatasetError: a greater share of the held-out tasks has leaked; names the first.
        """
        if self.leaked_share <= max_share:
            return
        found = (
            f.matches for f in self.findings if f.part is LeakPart.PROMPT and f.method in LEAKED
        )
        first = next(matches[0] for matches in found if matches)
        raise DatasetError(
            f"{len(self.leaked)} of {self.num_held_out} held-out tasks are among the training "
            f"tasks: {first.held_out_id} first, {first.method} in {first.training_id}",
            field="data.leaks.max_share",
            hint="assay leaks shows them all",
        )

    def counts(self) -> dict[str, int]:
        """Return the counts for the run's record."""
        found = {f"{f.part}, {f.method}": f.num_found for f in self.findings}
        return found | {
            "num_leaked": len(self.leaked),
            "num_held_out": self.num_held_out,
            "num_controls": sum(one.num_planted for one in self.controls),
        }

    def write(self, path: Path) -> None:
        """Write all findings as JSON, with samples of each."""
        controls = [
            {"kind": c.kind, "part": c.part, "method": c.method, "num_planted": c.num_planted}
            for c in self.controls
        ]
        report = {
            "num_training": self.num_training,
            "num_held_out": self.num_held_out,
            "num_leaked": len(self.leaked),
            "leaked_share": self.leaked_share,
            "leaked": self.leaked,
            "findings": [finding.row() for finding in self.findings],
            "controls": controls,
        }
        write_atomically(path, json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def check_leaks(
    training: Sequence[Task],
    held_out: Sequence[Task],
    config: LeaksConfig,
    seed: int = 0,
    on_read: Callable[[int], None] = lambda num_tasks: None,
) -> Leaks:
    """Search the training tasks for every held-out task; read them `NUM_READINGS` times.

    Raises:
        InternalFault: a planted leak was not found.
        DatasetError: a set is empty.
    """
    if not training or not held_out:
        raise DatasetError("there is nothing to compare", field="data.leaks")
    reader = Reader(held_out, training)
    detector = Detector([reader.document(task) for task in held_out], config)
    for task in training:
        detector.learn(reader.document(task))
        on_read(1)
    detector.settle()
    controls = check_controls(detector, reader, held_out, training[0], seed)

    def search() -> Iterator[Match]:
        for task in training:
            yield from detector.matches(reader.document(task))
            on_read(1)

    found = LeakFindings(search())
    findings = [
        LeakFinding(
            part,
            method,
            len(detector.compared(part, method)),
            found.num_pairs(part, method),
            found.of(part, method),
        )
        for part in LeakPart
        for method in Method
        if method is not Method.NEAR or detector.near
    ]
    return Leaks(len(training), len(held_out), findings, found.leaked, controls)
