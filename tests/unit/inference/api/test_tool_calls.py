"""Calls in a reply's text: parsed if possible, otherwise left unchanged."""

import json

import pytest

from assay_inference.api.tool_calls import HeldText, read_reply

ADD = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'
NOW = '<tool_call>{"name": "now"}</tool_call>'


def test_calls_are_read_and_what_was_said_before_them_is_content() -> None:
    reply = read_reply(f"Let me see.\n{ADD}\n{NOW}\n")
    assert reply.content == "Let me see."
    assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [
        ("add", {"x": 1}),
        ("now", {}),
    ]
    assert len({call.id for call in reply.calls}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "no call",
        '<tool_call>{"name": "add", "arguments": {"x": </tool_call>',
        '<tool_call>{"name": "add", "arguments": "x"}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>["add"]</tool_call>',
        '<tool_call>{"name": "add"}',
        f"{ADD} and so on",
        f"{ADD}<tool_call>broken</tool_call>",
        f"{ADD}<tool_call>",
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
    ],
)
def test_what_cannot_be_read_stays_as_it_is(text: str) -> None:
    reply = read_reply(text)
    assert (reply.content, reply.calls) == (text, ())


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("text", ["a < b <tool", f"Well. {ADD}", "x <tool_call>{broken", NOW])
def test_a_stream_holds_back_no_more_than_what_may_be_a_call(text: str, size: int) -> None:
    held, sent = HeldText(), ""
    for start in range(0, len(text), size):
        sent += held.add(text[start : start + size])
        assert "<tool_call>" not in sent
    rest = held.end()
    if read_reply(text).calls:
        assert sent.strip() == read_reply(text).content
        assert len(rest.calls) == 1
    else:
        assert sent + rest.content == text
