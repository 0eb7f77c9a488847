"""QA logs: some samples of each outcome, as text and as JSON lines."""

import hashlib
import json
from collections.abc import Iterator, Sequence

from assay_shared.runs.run_folder import write_atomically
from assay_shared.text.markdown import visible
from assay_trainer.evaluation.metrics.outcomes import error_type
from assay_trainer.evaluation.records.folder import EvaluationFolder, StoredSet
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord

#: The outcomes in their order; `success` is an accepted answer.
OUTCOMES = (
    "success",
    "wrong_answer",
    "syntax_error",
    "runtime_error",
    "time_limit",
    "other_limit",
    "failed",
)
_RULE = "=" * 80
#: Characters at each end of a long text.
_MOST_SHOWN = 10_000


def outcome_of(sample: SampleRecord) -> str:
    """Return the outcome under which a sample is logged."""
    kind = error_type(sample)
    return {None: "failed", "none": "success"}.get(kind, str(kind))


def chosen_samples(
    stored: StoredSet, per_outcome: int, seed: int
) -> Iterator[tuple[str, EvaluatedTask, SampleRecord]]:
    """Yield up to `per_outcome` samples of each outcome, the same ones for the same seed."""
    tasks = {task.id: task for task in stored.tasks}
    by_outcome: dict[str, list[SampleRecord]] = {name: [] for name in OUTCOMES}
    for sample in stored.samples:
        by_outcome[outcome_of(sample)].append(sample)
    for name, samples in by_outcome.items():
        for sample in sorted(samples, key=lambda one: _order(one, seed))[:per_outcome]:
            yield name, tasks[sample.task_id], sample


def _order(sample: SampleRecord, seed: int) -> str:
    return hashlib.sha256(f"{seed}/{sample.task_id}/{sample.index}".encode()).hexdigest()


def write_qa_log(folder: EvaluationFolder, stored: StoredSet, per_outcome: int, seed: int) -> int:
    """Write qa/SET.jsonl and qa/SET.txt; return the number of samples in them."""
    chosen = list(chosen_samples(stored, per_outcome, seed))
    name = stored.facts.name
    lines = "".join(json.dumps(_row(*one)) + "\n" for one in chosen)
    write_atomically(folder.qa_log(name, "jsonl"), lines)
    write_atomically(folder.qa_log(name, "txt"), "\n".join(_text(*one) for one in chosen))
    return len(chosen)


def _row(outcome: str, task: EvaluatedTask, sample: SampleRecord) -> dict[str, object]:
    return {
        "outcome": outcome,
        "task_id": task.id,
        "index": sample.index,
        "prompt": task.prompt,
        "answer": sample.text,
        "turns": sample.turns,
        "reference": task.reference,
        "verdict": sample.outcome,
        "reward": sample.reward,
        "pass_ratio": sample.pass_ratio,
        "components": sample.components,
        "evidence": sample.details,
        "failure": None if sample.failure is None else sample.failure.model_dump(mode="json"),
        "num_tokens": sample.num_tokens,
        "truncated": sample.truncated,
        "tags": task.tags,
    }


def _text(outcome: str, task: EvaluatedTask, sample: SampleRecord) -> str:
    cut = ", cut off" if sample.truncated else ""
    tokens = "" if sample.num_tokens is None else f", {sample.num_tokens} tokens"
    head = f"{outcome}: {task.id}, sample {sample.index}{tokens}{cut}"
    parts = [_RULE, head, *_verdict(sample), "", "--- prompt", task.prompt]
    if sample.turns:
        for number, (reply, observation) in enumerate(sample.turns, start=1):
            parts += [f"--- reply {number}", reply]
            parts += [f"--- observation {number}", observation] if observation else []
    else:
        parts += ["--- answer", sample.text]
    if task.reference is not None:
        parts += ["--- reference", task.reference]
    text = "\n".join(visible(_cut(part)) for part in parts) + "\n"
    return text.encode(errors="replace").decode()


def _cut(text: str) -> str:
    """Return a text's beginning and end if it is long; samples.jsonl has all of it."""
    left = len(text) - 2 * _MOST_SHOWN
    if left <= 0:
        return text
    return f"{text[:_MOST_SHOWN]}\n[... {left} characters are left out ...]\n{text[-_MOST_SHOWN:]}"


def _verdict(sample: SampleRecord) -> Sequence[str]:
    if sample.failure is not None:
        return [f"no score: {sample.failure.service}: {sample.failure.message}"]
    evidence = "; ".join(f"{name}: {found}" for name, found in sample.details.items())
    return [f"verdict {sample.outcome}, reward {sample.reward:g}", f"evidence {evidence or 'none'}"]
