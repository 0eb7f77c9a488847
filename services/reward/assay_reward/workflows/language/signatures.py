"""The table of operators as the language knows it: names, parameters, fields of the result."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class ValueType(StrEnum):
    """Types of values; a result of an operator is a record of fields of these types."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXTS = "list of text"


@dataclass(frozen=True, slots=True)
class OperatorParameter:
    """A parameter of an operator."""

    type: ValueType
    required: bool = True


@dataclass(frozen=True, slots=True)
class OperatorSignature:
    """What the language knows of an operator.

    `model_calls` is the largest number of calls of the executor model in one call of the operator.
    """

    name: str
    parameters: Mapping[str, OperatorParameter]
    fields: Mapping[str, ValueType]
    model_calls: int = 1


Signatures = Mapping[str, OperatorSignature]

_TEXT = OperatorParameter(ValueType.TEXT)
_TEXTS = OperatorParameter(ValueType.TEXTS)
_OPTIONAL = OperatorParameter(ValueType.TEXT, required=False)


def table_of(signatures: Iterable[OperatorSignature]) -> Signatures:
    """Return the signatures by name."""
    return {signature.name: signature for signature in signatures}


#: AFlow's operators and their fields. The environment gives a program's entry point to the
#: operators that need it; a workflow does not pass it on.
OPERATORS: Signatures = table_of(
    (
        OperatorSignature(
            "Custom", {"input": _TEXT, "instruction": _TEXT}, {"response": ValueType.TEXT}
        ),
        OperatorSignature(
            "AnswerGenerate",
            {"input": _TEXT},
            {"thought": ValueType.TEXT, "answer": ValueType.TEXT},
        ),
        OperatorSignature(
            "CustomCodeGenerate",
            {"problem": _TEXT, "instruction": _TEXT},
            {"response": ValueType.TEXT},
        ),
        OperatorSignature(
            "Programmer",
            {"problem": _TEXT, "analysis": _OPTIONAL},
            {"code": ValueType.TEXT, "output": ValueType.TEXT},
            model_calls=3,
        ),
        OperatorSignature(
            "Test",
            {"problem": _TEXT, "solution": _TEXT},
            {"result": ValueType.BOOLEAN, "solution": ValueType.TEXT},
            model_calls=3,
        ),
        OperatorSignature(
            "Review",
            {"problem": _TEXT, "solution": _TEXT},
            {"review_result": ValueType.BOOLEAN, "feedback": ValueType.TEXT},
        ),
        OperatorSignature(
            "Revise",
            {"problem": _TEXT, "solution": _TEXT, "feedback": _TEXT},
            {"solution": ValueType.TEXT},
        ),
        OperatorSignature(
            "Format", {"problem": _TEXT, "solution": _TEXT}, {"solution": ValueType.TEXT}
        ),
        OperatorSignature(
            "ScEnsemble", {"problem": _TEXT, "solutions": _TEXTS}, {"response": ValueType.TEXT}
        ),
        OperatorSignature(
            "MdEnsemble",
            {"problem": _TEXT, "solutions": _TEXTS},
            {"solution": ValueType.TEXT},
            model_calls=5,
        ),
        OperatorSignature(
            "Tool",
            {"name": _TEXT, "input": _TEXT},
            {"output": ValueType.TEXT, "succeeded": ValueType.BOOLEAN},
            model_calls=0,
        ),
    )
)
