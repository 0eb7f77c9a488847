"""Learned workflows: of an evaluation, of a training run, or of a file for all tasks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from assay_reward.workflows.comparison.candidates import CandidateKind, WorkflowCandidate, plain_id
from assay_reward.workflows.playing.feedback import without_keep
from assay_reward.workflows.playing.reading import read_here
from assay_shared.errors import DatasetError

_SAMPLES: Final = "samples.jsonl"
_ROLLOUTS: Final = "rollouts.jsonl"
_MAX_SOURCE_BYTES: Final = 2**18


def learned_candidate(name: str, path: Path) -> WorkflowCandidate:
    """Return the workflows at a path under a name.

    A folder is an evaluation (its samples.jsonl, also one folder down) or a training run (of its
    rollouts.jsonl, the last group of each task). A file is a workflow for every task.

    Raises:
        DatasetError: there is no workflow, or a line cannot be read; names it.
    """
    if path.is_file() and path.suffix != ".jsonl":
        source = _source(path)
        read = read_here(source, True)
        if read.tree is None:
            problems = "; ".join(read.problems)
            raise DatasetError(f"{path} is not a valid workflow: {problems}", field="learned")
        return WorkflowCandidate(name, CandidateKind.LEARNED, source)
    by_task: dict[str, tuple[str, ...]] = {}
    for file in _files(path):
        if file.name == _ROLLOUTS:
            by_task |= dict(_read(file, _of_group))
        else:
            for task_id, texts in _read(file, _of_sample):
                by_task[task_id] = (*by_task.get(task_id, ()), *texts)
    if not by_task:
        raise DatasetError(
            f"{path} has no workflows: name a run's folder, an evaluation's folder, or a file",
            field="learned",
        )
    return WorkflowCandidate(name, CandidateKind.LEARNED, by_task=by_task)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    samples = sorted([*path.glob(_SAMPLES), *path.glob(f"*/{_SAMPLES}")])
    rollouts = path / _ROLLOUTS
    return samples or ([rollouts] if rollouts.exists() else [])


def _source(path: Path) -> str:
    if path.stat().st_size > _MAX_SOURCE_BYTES:
        raise DatasetError(f"{path} has more than {_MAX_SOURCE_BYTES} bytes", field="learned")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}", field="learned") from None


def _read(path: Path, of_line: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        with path.open() as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith("\n"):
                    return  # a run in progress has not finished its last line
                try:
                    yield from of_line(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    place = f"{path}:{number}"
                    raise DatasetError(f"{place}: no sample of a policy: {error!r:.200}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


def _of_sample(line: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the text of an evaluation's line; a sample without one was never generated."""
    turns = tuple(str(turn[0]) for turn in line.get("turns", ()))
    text = without_keep(turns)[-1] if turns else str(line["text"])
    if text:
        yield plain_id(str(line["task_id"])), (text,)


def _of_group(line: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts of a training's group; a superseded group counts no more."""
    if line.get("superseded"):
        return
    group = line["group"]
    texts = []
    for one in group["rollouts"]:
        turns = tuple(str(turn["text"]) for turn in one.get("turns", ()))
        texts.append(without_keep(turns)[-1] if turns else str(one["text"]))
    yield plain_id(str(group["task"]["id"])), tuple(texts)
