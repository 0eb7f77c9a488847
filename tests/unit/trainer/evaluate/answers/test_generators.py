"""Stored answers, and the arguments of a chat template."""

from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.types import FinishReason, GenerateRequest, Message, SamplingParams
from assay_trainer.evaluate.answers.generators import (
    StoredGenerator,
    Templated,
    answers_to,
    read_answers,
)
from tests.support.fakes import FakeGenerator

CHAT = GenerateRequest(messages=(Message(role="user", content="q"),))


async def test_stored_answers_are_given_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(
        '{"task_id": 7, "text": "one", "num_tokens": 3}\n'
        '{"task_id": 7, "text": "two", "truncated": true}\n'
        '{"task_id": 7, "set": "s", "text": "of s"}\n'
    )
    found = read_answers(file)
    assert [one.text for one in answers_to(found, "s", "7", 1)] == ["of s"]
    answers = answers_to(found, "other", "7", 2)

    request = CHAT.model_copy(update={"sampling": SamplingParams(n=1)})
    first = await StoredGenerator(answers, 0).generate(request)
    second = await StoredGenerator(answers, 1).generate(request)

    assert [one.text for one in (*first.completions, *second.completions)] == ["one", "two"]
    assert len(first.completions[0].token_ids) == 3
    assert second.completions[0].finish_reason is FinishReason.LENGTH


def test_another_number_of_answers_is_refused_by_the_task(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"task_id": "a", "text": "one"}\n')

    with pytest.raises(InvalidInput, match="b of s has 0 answers, and the protocol takes 1"):
        answers_to(read_answers(file), "s", "b", 1)
    file.write_text('{"task_id": "a"}\n')
    with pytest.raises(DatasetError, match=r"text: .*a.jsonl:1: Field required"):
        read_answers(file)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('"num_tokens": 1000000000', "num_tokens: .*a.jsonl:2: .*less than or equal to 1048576"),
        ('"num_tokens": 0', "a.jsonl:2: .*leave it out"),
        ('"truncated": "no"', "truncated: .*a.jsonl:2"),
        ('"tokens": 3', "tokens: .*a.jsonl:2"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused_by_its_line(
    tmp_path: Path, row: str, message: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"task_id": "a", "text": "one"}\n{"task_id": "b", "text": "x", ' + row + "}\n")

    with pytest.raises(DatasetError, match=message):
        read_answers(file)


def test_half_of_a_surrogate_pair_is_refused_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"task_id": "a", "text": "one"}\n{"task_id": "b", "text": "half \\ud83d"}\n')

    with pytest.raises(DatasetError, match=r"text: .*a.jsonl:2: must be Unicode text"):
        read_answers(file)


async def test_a_chat_template_gets_its_arguments_and_a_raw_prompt_none() -> None:
    inner = FakeGenerator(["x"])
    templated = Templated(inner, {"enable_thinking": False})

    await templated.generate(CHAT)
    await templated.generate(GenerateRequest(prompt="raw"))

    assert [one.template for one in inner.requests] == [{"enable_thinking": False}, {}]
