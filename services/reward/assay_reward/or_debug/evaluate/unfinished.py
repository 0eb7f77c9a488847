"""The episodes of an evaluation as they finish: the same command plays those that are missing.

unfinished.jsonl has the options in its first line, then an episode in each. It is removed once the
evaluation's own files are written.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from assay_reward.or_debug.evaluate.evaluation import EpisodeRecord
from assay_reward.or_debug.evaluate.evaluation_file import (
    EPISODES,
    EVALUATION,
    AskedOptions,
    EvaluationFile,
)
from assay_shared.errors import Conflict
from assay_shared.runs.run_folder import append_line, whole_lines, write_atomically
from assay_shared.types import Wire

UNFINISHED = "unfinished.jsonl"
Form = TypeVar("Form", bound=BaseModel)
#: A policy, a task and a sample.
EpisodeKey = tuple[str, str, int]


class BegunEvaluation(Wire):
    """The first line: an evaluation with the same one can be resumed."""

    #: The evaluated policy, then the baselines.
    policies: tuple[str, ...]
    asked: AskedOptions

    def differences(self, other: "BegunEvaluation") -> list[str]:
        """Return each option that is another one in `other`, with both values."""
        mine, theirs = self._options(), other._options()
        return [
            f"{name}: {json.dumps(mine[name])}, not {json.dumps(theirs[name])}"
            for name in mine
            if mine[name] != theirs[name]
        ]

    def _options(self) -> dict[str, Any]:
        """Return the options by name; the digest of the tasks counts, not their path."""
        asked = self.asked.model_dump(mode="json", exclude={"data", "sampling"})
        sampling = self.asked.sampling.model_dump(mode="json")
        return {"policies": list(self.policies), **asked} | {
            f"sampling.{name}": value for name, value in sampling.items()
        }


@dataclass(frozen=True)
class UnfinishedEvaluation:
    """An evaluation that is being played; `known` are the episodes with a result so far."""

    path: Path
    known: Mapping[EpisodeKey, EpisodeRecord]

    def add(self, record: EpisodeRecord) -> None:
        append_line(self.path, record.model_dump_json())

    def of(self, policy: str) -> dict[tuple[str, int], EpisodeRecord]:
        """Return the known episodes of a policy by task and sample."""
        return {key[1:]: one for key, one in self.known.items() if key[0] == policy}


def begin(folder: Path, begun: BegunEvaluation, num_episodes: int) -> UnfinishedEvaluation:
    """Begin an evaluation in a folder, or resume the one there.

    An evaluation in which no episode of its policy has a result is replaced.

    Raises:
        Conflict: the folder has an evaluation with other options, a complete one, or one that
            cannot be read.
    """
    path = folder / UNFINISHED
    try:
        before, records = _unfinished(path) if path.exists() else _finished(folder)
    except ValueError as error:  # it is not known what would be lost
        raise _conflict(folder, f"that cannot be read ({error})") from None
    known = {_key(one): one for one in records if one.failure is None}
    if before is None or not any(policy == before.policies[0] for policy, _, _ in known):
        known = {}
    elif differences := before.differences(begun):
        raise _conflict(folder, f"with other options: {'; '.join(differences)}")
    elif len(known) == num_episodes and not path.exists():
        raise _conflict(folder, "with a result of each episode")
    lines = (one.model_dump_json() for one in (begun, *known.values()))
    write_atomically(path, "".join(f"{line}\n" for line in lines))
    return UnfinishedEvaluation(path, known)


def _conflict(folder: Path, told: str) -> Conflict:
    return Conflict(
        f"{folder} has an evaluation {told}", field="output", hint="choose another folder"
    )


def _unfinished(path: Path) -> tuple[BegunEvaluation | None, Iterable[EpisodeRecord]]:
    lines = [*whole_lines(path)]
    if not any(map(bytes.strip, lines)):
        return None, ()  # it ended before its first line was whole
    return _parsed(BegunEvaluation, lines[0], path, 1), _records(path, lines[1:], 2)


def _finished(folder: Path) -> tuple[BegunEvaluation | None, Iterable[EpisodeRecord]]:
    """Return an evaluation whose files are all written; None of a folder without one."""
    if not (folder / EVALUATION).exists() or not (folder / EPISODES).exists():
        return None, ()
    file = _parsed(EvaluationFile, (folder / EVALUATION).read_bytes(), folder / EVALUATION, 1)
    begun = BegunEvaluation(policies=file.policies, asked=file.asked)
    return begun, _records(folder / EPISODES, [*whole_lines(folder / EPISODES)], 1)


def _records(path: Path, lines: list[bytes], first: int) -> list[EpisodeRecord]:
    """Return the episodes of lines; blank lines at the end do not count."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return [_parsed(EpisodeRecord, line, path, at) for at, line in enumerate(lines, start=first)]


def _parsed(form: type[Form], line: bytes, path: Path, number: int) -> Form:
    """
    Raises:
        ValueError: it has another form; names file and line.
    """
    try:
        return form.model_validate_json(line)
    except ValidationError:
        raise ValueError(f"{path.name}, line {number}") from None


def _key(record: EpisodeRecord) -> EpisodeKey:
    return record.policy, record.task_id, record.sample
