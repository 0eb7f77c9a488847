"""Tasks of labels: references, fields, and unusable labels."""

import json

import pytest

from assay_shared.clients.labels import Label, task_from_label
from assay_shared.errors import InvalidInput
from assay_shared.types import CallCase

CASE = {"kind": "call", "function": "f", "args": [1], "expected": 2}


@pytest.mark.parametrize(
    ("label", "reference"),
    [
        ("42", "42"),
        (42, "42"),
        (0.5, "0.5"),
        ("{1, 2}", "{1, 2}"),
        ('{"x": 1}', '{"x": 1}'),
        ({"x": 1, "y": None}, '{"x": 1, "y": null}'),
        ("[1]", "[1]"),
        (None, None),
        ('{"reference": "7", "gold": null}', "7"),
    ],
)
def test_a_label_is_a_reference_or_has_one(label: Label, reference: str | None) -> None:
    assert task_from_label("p", label, "math").reference == reference


@pytest.mark.parametrize("encode", [dict, json.dumps])
def test_an_object_has_the_fields_of_a_task(encode: type[dict[str, object]]) -> None:
    label = {"tests": [CASE], "rubric": "code.sparse", "tags": {"domain": "code"}, "id": "mine"}
    task = task_from_label("p", encode(label), dataset="d")
    assert task.tests == (CallCase(function="f", args=(1,), expected=2),)
    assert (task.id, task.rubric, task.dataset, task.tags) == (
        "mine",
        "code.sparse",
        "d",
        {"domain": "code"},
    )
    assert task_from_label("p", encode(label), "code.dense").rubric == "code.dense"


def test_a_task_is_named_after_its_content() -> None:
    first = task_from_label("p", "1", "math")
    assert first == task_from_label("p", "1", "math")
    others = [
        task_from_label("q", "1", "math"),
        task_from_label("p", "2", "math"),
        task_from_label("p", "1", "qa"),
    ]
    assert len({first.id, *(one.id for one in others)}) == 4


@pytest.mark.parametrize(
    ("label", "rubric", "says"),
    [
        ("4", None, "rubric: no rubric is given"),
        ({"reference": "4", "test": []}, "math", "label.test: a task has no such field"),
        ({"tests": [{"kind": "call"}]}, "math", r"label.tests.0.call.function: Field required"),
        ({"tests": "assert f(1)"}, "math", "label.tests: "),
    ],
)
def test_labels_that_cannot_be_used_name_the_field(
    label: Label, rubric: str | None, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        task_from_label("p", label, rubric)
