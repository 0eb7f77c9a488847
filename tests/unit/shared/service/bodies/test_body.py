"""A body read by the validator itself means the same to Python's own parser."""

import json
import time

import pytest
from pydantic import BaseModel, ValidationError

from assay_shared.service.bodies.body import (
    MAX_KEYS,
    MAX_VALUES,
    BodyProblem,
    TooManyValues,
    UnreadableBody,
    check_presence,
    check_size,
    read_body,
)
from assay_shared.types import ExecutionRequest, TestRequest

CALL = b'{"code":"","cases":[{"kind":"call","function":"f","args":[%s],"expected":null}]}'
ARGUMENTS = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-0", b"-0.0", b"5e-324", b"1.0"),
    *(b"12345678901234567890123", b"9" * 4300, b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"'),
    *(b'{"a":1,"A":2}', b"[" * 150 + b"]" * 150, b"[" * 240 + b"]" * 240),
    *(b"01", b"1.", b"nan", b"[1,]", b'"\x01"', b'"\\u'),
)
BODIES = (
    *(b'{"code":1}', b'{"code":"x","zz":1}', b'{"code":"\\ud800"}'),
    *(b'\xef\xbb\xbf{"code":"x"}', '{"code":"x"}'.encode("utf-16"), b'{"code":"x"} '),
    *(b'{"code":"x","files":{"a":"!!"}}', b'{"code":"x","files":{"a":"YQ=="}}'),
    *(b'{"code":"x","files":{"a":1}}', b'{"code":"x","files":{"\\ud800":"YQ=="}}'),
    *(b'{"code":"x","limits":{"cpu_time_s":"1"}}', b'{"code":"x","limits":{"cpu_time_s":true}}'),
    *(b'{"code":"x","limits":{"processes":1.0}}', b'{"code":"x","limits":{"processes":1.5}}'),
    *(b'{"code":"x","limits":{"cpu_time_s":NaN}}', b'{"code":"x","fetch_files":["a","b"]}'),
    *(b'{"code":"x","fetch_files":"ab"}', b'{"code":"x","profile":"no"}', b'{"code":"x"}x'),
)


def by_python(model: type[BaseModel], body: bytes) -> str:
    try:
        return repr(model.model_validate(json.loads(body)))
    except json.JSONDecodeError:
        return "no JSON"
    except ValidationError as error:
        return f"{error.errors()[0]['loc']}"


def by_us(model: type[BaseModel], body: bytes) -> str:
    found = read_body(model, body)
    if not isinstance(found, BodyProblem):
        return repr(found)
    if found.error["type"] == "json_invalid":
        return "no JSON"
    return f"{found.error['loc'][1:]}"


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_means_what_python_reads(argument: bytes) -> None:
    body = CALL % argument
    assert by_us(TestRequest, body) == by_python(TestRequest, body)


@pytest.mark.parametrize("body", BODIES)
def test_a_body_means_what_python_reads(body: bytes) -> None:
    assert by_us(ExecutionRequest, body) == by_python(ExecutionRequest, body)


@pytest.mark.parametrize("argument", [b"[" * 100_000, b"9" * 5000, b'"\xff"'])
def test_what_python_cannot_read_is_unreadable(argument: bytes) -> None:
    with pytest.raises(UnreadableBody):
        read_body(TestRequest, CALL % argument)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"code":"x","code":"x"}', "code"),
        (b'{"code":"x","\\u0063ode":"y"}', "code"),
        ('{"code":"x","code":"y"}'.encode("utf-16"), "code"),
        (b'{"code":"\\ud800","code":"y"}', "code"),
        (b'{"code":"x","files":{"a":"YQ==","b":"","a":""}}', "a"),
        (b'{"code":"x","limits":{"processes":1,"processes":%b}}' % (b"9" * 5000), "processes"),
    ],
)
def test_a_key_that_stands_twice_is_named(body: bytes, key: str) -> None:
    found = read_body(ExecutionRequest, body)
    assert isinstance(found, BodyProblem)
    assert (found.error["type"], found.error["loc"]) == ("duplicate_key", ("body", key))


def test_a_key_that_stands_twice_in_a_free_value_is_named() -> None:
    found = read_body(TestRequest, CALL % b'[{"a":1,"b":{"c":1,"c":1}}]')
    assert isinstance(found, BodyProblem)
    assert "the key 'c' twice" in found.error["msg"]


def test_the_errors_are_counted_and_one_is_shown() -> None:
    body = b'{"code":1,' + b",".join(b'"k%d":1' % number for number in range(5000)) + b"}"
    found = read_body(ExecutionRequest, body)
    assert isinstance(found, BodyProblem)
    assert (found.error["loc"], found.num_errors) == (("body", "code"), 5001)


@pytest.mark.parametrize(
    ("content_type", "is_json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/problem+json", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
    ],
)
def test_only_what_is_said_to_be_json_is_read(content_type: str, *, is_json: bool) -> None:
    assert (check_presence(True, content_type) is None) is is_json


def test_a_body_may_not_be_missing() -> None:
    problem = check_presence(False, "application/json")
    assert problem is not None
    assert problem.error["type"] == "missing"


def test_a_list_ends_at_its_first_wrong_item_and_other_fields_are_named() -> None:
    body = b'{"code":1,"stdin":[' + b"0," * 100_000 + b'0],"files":5,"a":0,"b":0}'
    found = read_body(ExecutionRequest, body)
    assert isinstance(found, BodyProblem)
    assert found.error["loc"] == ("body", "code")
    assert found.num_errors == 5
    assert set(found.others) <= {"stdin", "files", "a", "b"}
    assert len(found.others) == 3


@pytest.mark.parametrize(
    ("body", "is_too_many"),
    [
        (b'{"token_ids":[' + b"0," * (MAX_VALUES + 1) + b"0]}", True),
        (b"[" + b'"a,b",' * (MAX_VALUES + 1) + b"0]", True),
        (b"{" + b'"a":0,' * (MAX_KEYS - 1) + b'"a":0}', False),
        (b"{" + b'"a":{"b":0},' * (MAX_KEYS // 2) + b'"a":{"b":0}}', True),
        (b'"' + b',:\\"' * MAX_VALUES + b'"', False),
        (b'"' + b",:\\" * MAX_VALUES, False),
        (b'",' * MAX_VALUES + b'"' * 10, False),
    ],
)
def test_values_are_counted_before_they_are_parsed(body: bytes, is_too_many: bool) -> None:
    started = time.process_time()
    if is_too_many:
        with pytest.raises(TooManyValues):
            check_size(body)
    else:
        check_size(body)
    assert time.process_time() - started < 2


def test_a_body_of_unknown_keys_is_told_in_brief() -> None:
    keys = b",".join(b'"k%d":0' % number for number in range(100_000))
    found = read_body(ExecutionRequest, b"{" + keys + b"}")
    assert isinstance(found, BodyProblem)
    assert found.error["msg"] == "more than 10000 things are wrong"
    assert found.num_errors > 100_000 - 1


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"code":"a\\ud800"}', ("body", "code")),
        (b'{"code":"","files":{"x":["b","\\udc00"]}}', ("body", "files", "x", 1)),
        (b'{"\\ud800":1}', ("body", "\ud800")),
    ],
)
def test_half_characters_are_refused_where_they_are_no_text(
    body: bytes, place: tuple[str | int, ...]
) -> None:
    found = read_body(ExecutionRequest, body, takes_half_characters=False)
    assert isinstance(found, BodyProblem)
    assert found.error["loc"] == place
    assert found.error["type"] == "string_unicode"
