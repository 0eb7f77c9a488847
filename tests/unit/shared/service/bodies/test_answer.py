"""Answers in JSON, written in pieces."""

import json

import pytest

from assay_shared.service.bodies.answer import in_slices


@pytest.mark.parametrize(
    "value",
    [
        {"a": [], "b": {}, "c": [[]], "d": list(range(100)), "e": None, "f": [{}]},
        {"choices": [{"logprobs": {"content": [{"token": "é\n", "n": i} for i in range(65)]}}]},
        [],
        "x",
    ],
)
def test_slices_are_the_json_of_the_whole(value: object) -> None:
    assert json.loads(b"".join(in_slices(value))) == value


def test_no_slice_holds_a_long_list() -> None:
    tops = [{"token": "x" * 50, "logprob": -1.0}] * 20
    content = [{"token": "x", "top_logprobs": tops}] * 10_000
    answer = {"choices": [{"logprobs": {"content": content}}]}
    assert max(map(len, in_slices(answer))) < 100_000
