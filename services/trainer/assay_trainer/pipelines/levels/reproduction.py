"""Reproduction of a stage from its folder: its files, its numbers, and its command again."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import write_atomically
from assay_shared.types.wire import Wire
from assay_shared.weights.checkpoint import file_digest
from assay_trainer.evaluation.metrics.measure import measure
from assay_trainer.evaluation.records.folder import StoredEvaluation, read_evaluation
from assay_trainer.evaluation.records.protocol import ProtocolKind
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pipelines.child import last_line, run_command
from assay_trainer.pipelines.levels.outputs import changed_outputs, outputs_of, told
from assay_trainer.pipelines.stage_command import StagePlaces, prepare
from assay_trainer.pipelines.stage_folder import StageFolder, Verdict
from assay_trainer.pipelines.stage_kinds import (
    AnyStage,
    CommandStage,
    CompareStage,
    EvaluateStage,
    MeasuringStage,
    PairsStage,
    RejectionStage,
)
from assay_trainer.stop import Stop

_RECORD = "reproduced.json"
_LIMIT_S = 7200.0
#: Protocols whose answers are scored one by one, as stored answers are.
_SINGLE = (ProtocolKind.GREEDY, ProtocolKind.SAMPLED)
#: Files that follow from their inputs alone; others tell times and paths.
_PURE = (".jsonl", "metrics.json", "comparison_data.json")


class ReproductionRecord(Wire):
    """reproduced.json of a stage: the verdict of doing it again."""

    verdict: Verdict
    reason: str
    seconds: float
    time: float


class Reproduction:
    """Does stages again from their folders."""

    def __init__(self, places: StagePlaces, stop: Stop, on_line: Callable[[str], None]) -> None:
        """Store the parts; `on_line` gets the last line of a command's log."""
        self._places, self._stop, self._on_line = places, stop, on_line

    def check(self, stage: AnyStage, folder: StageFolder) -> ReproductionRecord:
        """Check a finished stage, write the finding into its folder, and return it."""
        began = time.time()
        verdict, reason = self._check(stage, folder)
        found = ReproductionRecord(
            verdict=verdict, reason=reason, seconds=time.time() - began, time=began
        )
        if not self._stop.asked:
            write_atomically(folder.path / _RECORD, found.model_dump_json(indent=2) + "\n")
        return found

    def _check(self, stage: AnyStage, folder: StageFolder) -> tuple[Verdict, str]:
        known = outputs_of(folder)
        if not known:
            return "INCONCLUSIVE", "the digests of its files were not written down"
        if differences := changed_outputs(folder):
            return "FAIL", told(differences)
        files = f"files as they were written: {len(known)}"
        if isinstance(stage, MeasuringStage):
            return self._measure(stage, folder, files)
        if isinstance(stage, PairsStage | RejectionStage | CompareStage | CommandStage):
            return self._repeat(stage, folder, files)
        return "PASS", f"{files}; the command was not run again"

    def _measure(
        self, stage: MeasuringStage, folder: StageFolder, files: str
    ) -> tuple[Verdict, str]:
        """Compute the numbers from the samples, and score the answers again."""
        stored = read_evaluation(folder.output)
        for name, one in stored.sets.items():
            written = json.loads((folder.output / name / "metrics.json").read_bytes())
            again = measure(one, stored.record.protocol).model_dump(mode="json")
            if again["overall"] != written["overall"]:
                return "FAIL", f"the numbers of {name} do not follow from its samples"
        reason = f"{files}; the numbers follow from the samples"
        samples = [one for found in stored.sets.values() for one in found.samples]
        is_single = stored.record.protocol.kind in _SINGLE and not any(s.turns for s in samples)
        if not isinstance(stage, EvaluateStage) or not is_single:
            return "PASS", f"{reason}; its episodes were not scored again"
        return self._score(stage, folder, stored, reason)

    def _score(
        self, stage: EvaluateStage, folder: StageFolder, stored: StoredEvaluation, reason: str
    ) -> tuple[Verdict, str]:
        again = folder.beside("again")
        shutil.rmtree(again.path, ignore_errors=True)
        words = _score_words(prepare(stage, again, self._places), again.path / "answers.jsonl")
        lines = [
            json.dumps(_answer(name, sample)) + "\n"
            for name, one in stored.sets.items()
            for sample in one.samples
        ]
        write_atomically(again.path / "answers.jsonl", "".join(lines))
        if (failed := self._run(words, again)) is not None:
            return "INCONCLUSIVE", f"{reason}; scoring again: {failed}"
        changed, total = _changed_outcomes(stored, read_evaluation(again.output))
        if changed:
            return (
                "FAIL",
                f"{changed} of {total} stored answers have another outcome when scored again",
            )
        shutil.rmtree(again.path, ignore_errors=True)
        return "PASS", f"{reason}; {total} stored answers have the same outcome when scored again"

    def _repeat(self, stage: AnyStage, folder: StageFolder, files: str) -> tuple[Verdict, str]:
        """Run a command again; its result has to follow from its inputs alone."""
        again = folder.beside("again")
        shutil.rmtree(again.path, ignore_errors=True)
        if (failed := self._run(prepare(stage, again, self._places), again)) is not None:
            return "INCONCLUSIVE", f"{files}; the command again: {failed}"
        known = outputs_of(folder)
        pure = [name for name in known if name.endswith(_PURE)]
        differing = [
            name for name in pure if not _is_same(folder.output / name, again.output / name)
        ]
        if differing:
            return "FAIL", told([f"{name} differs when it is made again" for name in differing])
        shutil.rmtree(again.path, ignore_errors=True)
        return "PASS", f"{files}; the same when they are made again: {len(pure)}"

    def _run(self, words: list[str], again: StageFolder) -> str | None:
        """Run a command; return why it did not end well, or None."""
        code, is_late = run_command(
            words,
            again.log,
            again.running,
            self._stop,
            limit_s=_LIMIT_S,
            on_line=self._on_line,
        )
        if is_late:
            return f"it took over {_LIMIT_S:.0f} s"
        return None if code == 0 else f"exit code {code}: {last_line(again.log)[:200]}"


def stored_reproduction(folder: StageFolder) -> ReproductionRecord | None:
    """Return the finding of doing a stage again; None before it was tried."""
    file = folder.path / _RECORD
    return ReproductionRecord.model_validate_json(file.read_bytes()) if file.exists() else None


def _score_words(words: list[str], answers: Path) -> list[str]:
    """Return the words to score stored answers, from the words to ask a policy for them."""
    return [words[0], "--answers", str(answers), *words[2:]]


def _answer(name: str, sample: SampleRecord) -> dict[str, object]:
    found: dict[str, object] = {"task_id": sample.task_id, "set": name, "text": sample.text}
    if sample.num_tokens is not None:
        found["num_tokens"] = sample.num_tokens
    return found | {"truncated": sample.truncated}


def _changed_outcomes(stored: StoredEvaluation, again: StoredEvaluation) -> tuple[int, int]:
    """Return the number of samples with another outcome, and of those with one on both sides."""
    changed = total = 0
    for name, one in stored.sets.items():
        found = {(s.task_id, s.index): s.outcome for s in again.sets[name].samples}
        for sample in one.samples:
            outcome = found.get((sample.task_id, sample.index))
            if sample.outcome is not None and outcome is not None:
                total += 1
                changed += outcome is not sample.outcome
    return changed, total


def _is_same(ours: Path, again: Path) -> bool:
    """Return True for equal files; paths in JSON may differ, as of a folder that was moved."""
    if not again.is_file():
        return False
    if ours.suffix != ".json":
        return file_digest(ours) == file_digest(again)
    first, second = (_without_paths(json.loads(one.read_bytes())) for one in (ours, again))
    return bool(first == second)


def _without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_paths(one) for key, one in value.items() if key != "path"}
    return [_without_paths(one) for one in value] if isinstance(value, list) else value
