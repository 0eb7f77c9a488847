"""Checks that the files of a stored evaluation agree with each other."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay_shared.errors import DatasetError
from assay_shared.types import Status
from assay_shared.weights.checkpoint import file_digest
from assay_trainer.evaluation.records.evaluation_record import EvaluatedSet, EvaluationRecord
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import SampleRecord

#: Components from 0 to 1; their verifiers accept an answer at 1 and at no other value.
EXACT_COMPONENTS = frozenset(
    {
        "accepted",
        "choice",
        "constraints",
        "exact_match",
        "f1",
        "json_schema",
        "judge",
        "language",
        "likelihood",
        "math",
        "pass_ratio",
        "pattern",
        "qa",
        "submit",
    }
)
_SHORT = 12
_RESUME = "the same `assay evaluate` again plays what is missing"


def check_digest(record: EvaluationRecord, text: bytes, path: Path) -> None:
    """Check that the digest in evaluation.json is that of its protocol.

    The fields as they stand in the file count: a later version may know more of them.

    Raises:
        DatasetError: the digest is that of another protocol.
    """
    fields = json.dumps(json.loads(text)["protocol"], sort_keys=True)
    written = hashlib.sha256(fields.encode()).hexdigest()
    if record.protocol_digest not in (written, record.protocol.digest):
        raise DatasetError(
            f"{path}: {record.protocol_digest[:_SHORT]!r} is not the digest of the protocol "
            f"there, which is {written[:_SHORT]!r}",
            field="protocol_digest",
        )


def check_tasks(path: Path, facts: EvaluatedSet) -> None:
    """Check that the tasks of a set are those that were written.

    Raises:
        DatasetError: the file was edited since, or cannot be read.
    """
    if facts.stored_digest is None:
        return
    try:
        found = file_digest(path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None
    if found != facts.stored_digest:
        raise DatasetError(
            f"{path} was edited after the evaluation: its SHA-256 is {found[:_SHORT]}, and "
            f"evaluation.json says {facts.stored_digest[:_SHORT]}",
            field=f"sets.{facts.name}.stored_digest",
            hint="restore the file, or evaluate again into another folder",
        )


def check_sample(sample: SampleRecord, protocol: Protocol | None, where: str) -> None:
    """Check that a line has a score or a failure, and an index that the protocol asks for.

    Raises:
        DatasetError: it has both or neither, or a higher index; `where` names file and line.
    """
    if sample.failure is not None:
        scores = [name for name in ("outcome", "reward") if getattr(sample, name) is not None]
        if scores:
            raise DatasetError(
                f"{where}: the sample has a failure, and so no {scores[0]}", field=scores[0]
            )
    elif sample.outcome is None:
        raise DatasetError(f"{where}: the sample has neither outcome nor failure", field="outcome")
    if protocol is not None and sample.index >= protocol.samples_per_task:
        raise DatasetError(
            f"{where}: {sample.index} is not below the protocol's samples_per_task, "
            f"{protocol.samples_per_task}",
            field="index",
        )


def check_outcome(sample: SampleRecord, where: str) -> None:
    """Check that a scored line has a reward, and that outcome, components and reward agree.

    A rubric accepts an answer if all its verifiers do. Those of `EXACT_COMPONENTS` accept at 1
    alone; a gate, outside of the reward, has failed at 0.

    Raises:
        DatasetError: a number is missing or contradicts another; names the field.
    """
    if sample.outcome is None:
        return
    if sample.outcome is Status.SANDBOX_ERROR:
        raise DatasetError(
            f"{where}: {sample.outcome} is a failure, and never the outcome of an answer",
            field="outcome",
        )
    if sample.reward is None:
        raise DatasetError(f"{where}: the sample has an outcome and no reward", field="reward")
    exact = {name: v for name, v in sample.components.items() if name in EXACT_COMPONENTS}
    outcome, values = sample.outcome, set(exact.values())
    is_right, are_all = outcome is Status.ACCEPTED, len(exact) == len(sample.components) > 0
    if is_right and not sample.components and sample.reward <= 0:
        raise DatasetError(
            f"{where}: the outcome is accepted, and the reward is {sample.reward:g}, "
            "without a component",
            field="outcome",
        )
    wrong_at = [name for name, v in exact.items() if v == 0 or (v != 1 and len(exact) == 1)]
    if is_right and wrong_at and (0 in values or are_all):
        raise DatasetError(
            f"{where}: the outcome is accepted, and the component {wrong_at[0]} is "
            f"{exact[wrong_at[0]]:g}, which is not right",
            field="outcome",
        )
    if not is_right and are_all and values == {1}:
        raise DatasetError(
            f"{where}: the outcome is {outcome}, and the components are those of a right answer",
            field="outcome",
        )
    if are_all and len(values) == 1 and values <= {0, 1} and (sample.reward > 0) != (1 in values):
        raise DatasetError(
            f"{where}: the reward is {sample.reward:g}, and all components are {values.pop():g}",
            field="reward",
        )


def check_complete(
    samples: Mapping[str, Sequence[SampleRecord]], protocol: Protocol, file: Path
) -> None:
    """Check that a finished evaluation has all samples of each task, in the order of their indices.

    Raises:
        DatasetError: some are missing; names the first of them.
    """
    missing = [
        (task, index) for task, stored in samples.items() for index in _missing(stored, protocol)
    ]
    if missing:
        task, index = missing[0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        num_lines = file.read_bytes().count(b"\n") if file.exists() else 0
        raise DatasetError(
            f"{file}: the evaluation is finished, but its {num_lines} lines lack "
            f"sample {index} of {task!r}{more}",
            hint=_RESUME,
        )


def _missing(stored: Sequence[SampleRecord], protocol: Protocol) -> list[int]:
    """Return the indices without a sample; of a budget that is not used, the next one."""
    found = {one.index for one in stored}
    if protocol.kind is not ProtocolKind.BUDGET:
        return [index for index in range(protocol.samples_per_task) if index not in found]
    holes = [index for index in range(max(found, default=-1)) if index not in found]
    num_tokens: list[int | None] = [one.num_tokens for one in stored]
    is_open = (
        len(found) < protocol.samples_per_task
        and not any(one.failure for one in stored)
        and None not in num_tokens
        and sum(one or 0 for one in num_tokens) < (protocol.budget_tokens or 0)
    )
    return holes + ([len(found)] if is_open and not holes else [])
