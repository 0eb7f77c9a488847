"""From a sandbox's status to an error type."""

from collections.abc import Sequence

from assay_shared.types import Status
from assay_trainer.evaluation.metrics.set_metrics import ErrorType
from assay_trainer.evaluation.records.sample_record import SampleRecord

ERROR_TYPES: dict[Status, ErrorType] = {
    Status.ACCEPTED: "none",
    Status.WRONG_ANSWER: "wrong_answer",
    Status.UNGRADABLE: "wrong_answer",
    Status.COMPILE_ERROR: "syntax_error",
    Status.SYNTAX_ERROR: "syntax_error",
    Status.RUNTIME_ERROR: "runtime_error",
    Status.TIME_LIMIT: "time_limit",
    Status.MEMORY_LIMIT: "other_limit",
    Status.OUTPUT_LIMIT: "other_limit",
}
_RAN: frozenset[ErrorType] = frozenset({"none", "wrong_answer"})


def error_type(sample: SampleRecord) -> ErrorType | None:
    """Return the error type of a scored sample; None of a failure."""
    return None if sample.outcome is None else ERROR_TYPES[sample.outcome]


def ran(sample: SampleRecord) -> bool:
    """Return True if a program ended without an error or a limit."""
    return error_type(sample) in _RAN


def scored(samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    return [one for one in samples if one.outcome is not None]


def accepted(sample: SampleRecord) -> bool:
    return sample.outcome is Status.ACCEPTED


def known_tokens(samples: Sequence[SampleRecord]) -> list[int] | None:
    """Return the tokens of each sample; None if those of any sample are not known."""
    found = [one.num_tokens for one in samples if one.num_tokens is not None]
    return found if len(found) == len(samples) else None
