"""The type of a worse answer: why it is worse."""

import re

from assay_trainer.evaluation.metrics.outcomes import accepted, error_type
from assay_trainer.evaluation.records.sample_record import SampleRecord
from assay_trainer.pairs.order import ChoiceOrder, RejectionType

#: Components that measure an answer's form, by the names of their verifiers.
_FORM = frozenset({"json_schema", "constraints", "pattern", "language", "format"})
_REFUSAL = re.compile(
    r"\W*(?:(?:i(?:'m| am)\s+(?:very\s+|so\s+)?sorry|sorry|unfortunately|i apologi[sz]e|as an ai)\b"
    r".{0,80}?\b(?:can(?:'t|not| not)|won't|unable|not able|not allowed)\b"
    r"|i\s+(?:can(?:'t|not| not)|won't|will not|am (?:unable|not able)|must decline)\b"
    r".{0,40}?\b(?:help|assist|answer|provide|comply|do (?:that|this)|create|write|give|fulfil))",
    re.IGNORECASE | re.DOTALL,
)
_READ = 400


def type_of(sample: SampleRecord, order: ChoiceOrder) -> RejectionType:
    """Return why a scored sample is the worse one of a pair; the first reason that fits counts."""
    if sample.truncated:
        return RejectionType.TRUNCATED
    if not accepted(sample) and is_refusal(sample.text):
        return RejectionType.REFUSAL
    if any(bound.holds(sample) for bound in order.hallucination):
        return RejectionType.HALLUCINATION
    if _violates_its_form(sample, order):
        return RejectionType.FORMAT_VIOLATION
    if accepted(sample):
        return RejectionType.LOWER_SCORE
    return RejectionType(str(error_type(sample)))


def is_refusal(text: str) -> bool:
    """Return True if a text begins as a refusal does."""
    return _REFUSAL.match(text[:_READ].replace("\u2019", "'")) is not None


def _violates_its_form(sample: SampleRecord, order: ChoiceOrder) -> bool:
    if any(bound.holds(sample) for bound in order.format_violation):
        return True
    if accepted(sample):
        return False
    failed = any(value < 1 for name, value in sample.components.items() if name in _FORM)
    return failed or not sample.text.strip()
