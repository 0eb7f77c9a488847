"""Answers compared by their words: exact_match, f1, qa, choice, pattern, json_schema."""

from typing import Any

import pytest

from assay_reward.verifiers.choice import CHOICE
from assay_reward.verifiers.exact_match import EXACT_MATCH
from assay_reward.verifiers.f1 import F1
from assay_reward.verifiers.json_schema import JSON_SCHEMA
from assay_reward.verifiers.pattern import PATTERN
from assay_reward.verifiers.qa import QA
from assay_reward.verifiers.verifier import Measurement
from assay_shared.errors import InvalidInput, JudgeFault
from tests.support.fakes import FakeJudge
from tests.support.reward.measuring import assert_too_hard, find, measure


async def test_exact_match_looks_past_case_articles_and_punctuation() -> None:
    answers = ("the Eiffel Tower!", "eiffel  tower", "Eiffel", "", "The")
    assert await measure(EXACT_MATCH, *answers, reference="The Eiffel Tower") == [1, 1, 0, 0, 0]
    assert await measure(EXACT_MATCH, "", "the", "A", reference="A") == [0, 0, 1]


async def test_any_of_several_references_will_do() -> None:
    checks = {"exact_match": {"references": ["USA", "United States"]}}
    assert await measure(EXACT_MATCH, "usa", "united states", "US", checks=checks) == [1, 1, 0]


@pytest.mark.parametrize(
    ("extract", "answer", "value"),
    [
        ("last_line", "I think so.\nParis", 1),
        ("tagged", "<answer>Rome</answer> no, <answer> Paris </answer>.", 1),
        ("tagged", "Paris", 0),
        ("boxed", r"so \boxed{\text{Rome}} or \boxed{Paris}", 1),
        ("marked", "hm\n#### Paris", 1),
        ("whole", "I think Paris", 0),
    ],
)
async def test_the_part_that_is_compared_is_an_option(
    extract: str, answer: str, value: float
) -> None:
    options = {"extract": extract}
    assert await measure(EXACT_MATCH, answer, reference="Paris", options=options) == [value]


async def test_f1_is_of_shared_words_each_as_often_as_both_have_it() -> None:
    answers = ("red green blue", "blue green red", "red", "red red red red", "black")
    found = await measure(F1, *answers, reference="red green blue")
    assert found == pytest.approx([1.0, 1.0, 0.5, 2 / 7, 0.0])


@pytest.mark.parametrize("verifier", [EXACT_MATCH, F1, QA])
@pytest.mark.parametrize(
    ("task", "field"),
    [({"gold": None}, "task.reference"), ({"gold": " "}, "task.reference")],
)
async def test_nothing_to_compare_with_is_no_score(
    verifier: Any, task: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidInput, match=field):
        await measure(verifier, "", **task)


QUESTION: dict[str, Any] = {"reference": "It was signed in Paris on 3 May 1921"}


async def test_only_answers_that_words_leave_open_go_to_the_judge_and_in_one_request() -> None:
    judge = FakeJudge()
    exact = "it was signed in Paris on 3 may 1921."
    near = "It was signed in the Paris on the 3 May 1921"
    answers = (exact, near, "", "Berlin", "the French capital")
    found = await find(QA, *answers, judge=judge, **QUESTION)
    assert [one.value for one in found if isinstance(one, Measurement)] == [1, 1, 0, 0, 0]
    assert [request.answers for request in judge.requests] == [("Berlin", "the French capital")]
    details = [one.detail for one in found if isinstance(one, Measurement)]
    assert details[:2] == ["exact match", "exact match"]
    assert details[2:] == ["empty, by words", "INCORRECT by fake", "INCORRECT by fake"]


@pytest.mark.parametrize(
    "answer",
    [
        "It was not signed in Paris on 3 May 1921",
        "It was signed in Paris on 4 May 1921",
        "Paris was signed in It on 3 May 1921",
        "It was signed in Rome on 3 May 1921",
        "It was signed in Paris before 3 May 1921",
        "It was signed in Paris on 3 May 1921 by nobody",
    ],
)
async def test_one_other_word_is_left_to_the_judge(answer: str) -> None:
    judge = FakeJudge()
    assert await measure(QA, answer, judge=judge, **QUESTION) == [0]
    assert len(judge.requests) == 1


@pytest.mark.parametrize(
    "pair", ["-5|5", "1.5|15", "x+y|x-y", "a>b|a<b", "1/2|12", "10:30|1030", "C++|C", "0.5%|0.5"]
)
async def test_digits_signs_and_operators_are_never_dropped(pair: str) -> None:
    judge = FakeJudge()
    reference, _, answer = pair.partition("|")
    assert await measure(QA, answer, judge=judge, reference=reference) == [0]
    assert len(judge.requests) == 1


async def test_the_same_number_needs_no_judge() -> None:
    judge = FakeJudge()
    assert await measure(QA, "$1,000.00", "10^3", judge=judge, reference="1000") == [1, 0]
    assert [request.answers for request in judge.requests] == [("10^3",)]


async def test_a_judge_that_fails_leaves_open_answers_alone_without_a_score() -> None:
    judge = FakeJudge(JudgeFault("empty reply"))
    assert await measure(QA, "Paris", "the capital", judge=judge, reference="Paris") == [1, None]


# Choice


async def test_the_right_choice_scores_1() -> None:
    checks = {"choice": {"options": ["Paris", "Rome"], "answer": "B"}}
    assert await measure(CHOICE, "B", "A", "Rome", "A or B", checks=checks) == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"options": ["x", "y"], "answer": "C"}, "there is no option C among 2"),
        ({"options": ["x", "x."], "answer": "A"}, "another option says the same"),
        ({"options": ["x"], "answer": "A"}, "task.checks.choice.options: .*at least 2"),
        ({"options": ["x", "y"]}, "task.checks.choice.answer: Field required"),
        (None, "task.checks.choice: task t has no check for choice"),
    ],
)
async def test_a_choice_that_cannot_be_made_names_the_field(check: object, message: str) -> None:
    checks = {} if check is None else {"choice": check}
    with pytest.raises(InvalidInput, match=message):
        await measure(CHOICE, "A", checks=checks)


# Patterns


async def test_a_pattern_is_searched_or_is_the_whole_answer() -> None:
    part = {"pattern": {"pattern": r"\bv\d+\b"}}
    whole = {"pattern": {"pattern": r"v\d+", "whole": True}}
    answers = ("v12", "it is v12.", "v")
    assert await measure(PATTERN, *answers, checks=part) == [1, 1, 0]
    assert await measure(PATTERN, *answers, checks=whole) == [1, 0, 0]


async def test_a_pattern_that_takes_for_ever_is_too_hard() -> None:
    checks = {"pattern": {"pattern": r"(a|aa)+$"}}
    answers = ("a" * 60 + "b", "a")
    hard, easy = await find(PATTERN, *answers, checks=checks, options={"timeout_s": 0.05})
    assert_too_hard(hard)
    assert isinstance(easy, Measurement)
    assert easy.value == 1.0


@pytest.mark.parametrize(
    ("pattern", "message"), [("(", "not a regular"), ("x" * 3000, "2000 char")]
)
async def test_a_bad_pattern_names_the_field(pattern: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"task.checks.pattern.pattern: .*{message}"):
        await measure(PATTERN, "x", checks={"pattern": {"pattern": pattern}})


# JSON

PERSON = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0},
        "name": {"type": "string", "pattern": "^[A-Z]"},
        "tags": {"type": "array", "uniqueItems": True},
    },
    "required": ["age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"age": 5}', 1),
        ('Here you are:\n```json\n{"age": 5, "name": "Ada"}\n```\n', 1),
        ('```\n{"age": 5}\n```\n```\n{"age": -1}\n```', 0),
        ('Here: {"age": 5}', 0),
        ('{"age": "5"}', 0),
        ('{"age": 5, "more": 1}', 0),
        ('{"age": 5, "name": "ada"}', 0),
        ('{"age": 5, "tags": [1, 2, "1"]}', 1),
        ('{"age": 5, "tags": [1, 1.0]}', 0),
        ('{"age": NaN}', 0),
        ('{"age": -5, "age": 5}', 0),
        ('{"age": 5, "\\u0061ge": 5}', 0),
        ('{"age": ' + "9" * 5000 + "}", 0),
        ("[" * 100_000, 0),
        ('{"age": 5' + " " * 70_000 + "}", 0),
        ("", 0),
    ],
)
async def test_json_is_held_to_its_schema(answer: str, value: float) -> None:
    checks = {"json_schema": {"schema": PERSON}}
    assert await measure(JSON_SCHEMA, answer, checks=checks) == [value]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "person"}, "not a JSON schema"),
        ({"$ref": "http://example.com/schema"}, "nothing is fetched"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"patternProperties": {"(a+)+$": {}}}, "patternProperties is not supported"),
        ({"pattern": "("}, "not a"),
    ],
)
async def test_a_schema_that_cannot_be_used_names_the_field(
    schema: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await measure(JSON_SCHEMA, "{}", checks={"json_schema": {"schema": schema}})


async def test_a_schemas_slow_pattern_is_too_hard() -> None:
    checks = {"json_schema": {"schema": {"pattern": "(a|aa)+$"}}}
    (found,) = await find(JSON_SCHEMA, '"' + "a" * 60 + 'b"', checks=checks, cpu_s=0.2)
    assert_too_hard(found)
