"""Advice from the numbers of a finished stage: poor results, slow generation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import RunFolder
from assay_trainer import events
from assay_trainer.browser.diagnosis.diagnose import diagnose
from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.sft_rules import of_losses
from assay_trainer.evaluation.metrics.outcomes import ERROR_TYPES
from assay_trainer.pipelines.gating.moved_weights import moved_shares
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import AnyStage, MeasuringStage, TrainStage

_CUT_OFF = 0.1
_FEW_MOVED = 0.5
_SLOW_TOKENS_PER_S = 50.0
_ERRORS = 0.1


def what_results_say(stage: AnyStage, folder: StageFolder) -> list[str]:
    """Return advice by the numbers of a finished stage."""
    if isinstance(stage, TrainStage):
        return list(_of_run(folder))
    if isinstance(stage, MeasuringStage):
        return [f"{name}: {one}" for name in stage.sets for one in _of_set(folder.output / name)]
    return []


def _of_run(folder: StageFolder) -> Iterator[str]:
    report = _json(folder.output / "report.json")
    if sft := report.get("sft"):
        yield from _of_sft(sft)
    for name, share in moved_shares(folder.output, folder.path / "weights.json").items():
        if name != "all" and 0 < share < _FEW_MOVED:
            yield (
                f"{name} moved {share:.1%} of the weights: updates may be lost in 16 bits; raise "
                "the learning rate, or keep the weights in float32"
            )
    living = events.living(RunFolder(folder.output).read_events())
    steps = [one for event in living if isinstance(one := events.content(event), events.StepEvent)]
    yield from (found.told for found in diagnose(DiagnosedFacts(steps=steps)))


def _of_sft(sft: dict[str, Any]) -> Iterator[str]:
    losses = {int(step): loss for step, loss in (sft.get("validation_losses") or {}).items()}
    for found in of_losses(sft["first_loss"], sft["last_loss"], losses):
        yield found.told


def _of_set(folder: Path) -> Iterator[str]:
    metrics = _json(folder / "metrics.json")
    overall = metrics.get("overall", {})
    cut = (overall.get("truncated") or {}).get("value", 0.0)
    if cut > _CUT_OFF:
        scored = overall.get("num_samples", 0) - overall.get("num_failed", 0)
        yield (
            f"{cut:.0%} of {scored} answers were cut off: raise max_tokens, or check the chat "
            "template and the end token"
        )
    if overall.get("num_failed"):
        yield f"{overall['num_failed']} samples have no score: see failures in samples.jsonl"
    if overall.get("num_without_text"):
        yield f"{overall['num_without_text']} answers are empty: check the chat template"
    yield from _of_programs(overall)
    tokens = ((overall.get("costs") or {}).get("tokens") or {}).get("total", 0.0)
    seconds = metrics.get("played_s") or 0.0
    if seconds and tokens / seconds < _SLOW_TOKENS_PER_S:
        yield (
            f"{tokens / seconds:.0f} tokens a second: raise --concurrency, lower max_tokens, "
            "or serve by vLLM or SGLang"
        )


def _of_programs(overall: dict[str, Any]) -> Iterator[str]:
    total = (overall.get("code") or {}).get("num_samples", 0)
    outcomes = (overall.get("outcomes") or {}).items()
    bad = sum(number for name, number in outcomes if ERROR_TYPES.get(name) == "syntax_error")
    if total and bad / total > _ERRORS:
        yield (
            f"{bad} of {total} programs ({bad / total:.0%}) do not parse: answers are cut off, or "
            "the training data has such programs"
        )


def _json(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes()) if file.is_file() else {}
    return found
