"""What is read for each option, and what is made of it."""

import pytest

from assay_shared.errors import Unreachable
from assay_shared.types import Role, Status
from assay_trainer.data.importers.choices import choice_example
from assay_trainer.evaluate.answers.likelihood import (
    OptionText,
    option_texts,
    read_task,
)
from assay_trainer.evaluation.records.protocol import Protocol

TASK = choice_example("q", "arc", Role.TEST, "What is blue?", ["grass", "the sky"], 1, {}).task


class Table:
    """Reads each option from a table, by the end of its text."""

    def __init__(self, table: dict[str, tuple[float, int]]) -> None:
        self.table = table

    async def read(self, option: OptionText) -> tuple[float, int]:
        if option.continuation not in self.table:
            raise Unreachable("planted", service="inference")
        return self.table[option.continuation]


def likelihood(**changes: object) -> Protocol:
    return Protocol.model_validate({"kind": "likelihood", "prompt_format": "raw"} | changes)


def test_letters_are_read_after_the_lettered_options() -> None:
    found = option_texts(TASK, likelihood())
    assert found["B"].prompt == "What is blue?\nA. grass\nB. the sky\nAnswer:"
    assert found["B"].continuation == " B"


async def test_the_literal_prompt_is_stored() -> None:
    found = await read_task(TASK, likelihood(), Table({" A": (-2.0, 1), " B": (-1.0, 1)}))
    assert found.details["prompt"] == "What is blue?\nA. grass\nB. the sky\nAnswer:"


def test_texts_are_read_after_the_question_alone() -> None:
    found = option_texts(TASK, likelihood(options="texts"))
    assert found["B"].prompt == "Question: What is blue?\nAnswer:"
    assert found["B"].continuation == " the sky"


@pytest.mark.parametrize("options", ["letters", "texts"])
@pytest.mark.parametrize("end", ["Answer:", "Answer:\n"])
def test_a_raw_prompt_that_asks_for_the_answer_stays_as_it_is(options: str, end: str) -> None:
    task = TASK.model_copy(update={"prompt": f"Question: What is blue?\n{end}"})
    found = option_texts(task, likelihood(options=options))
    assert found["B"].prompt == "Question: What is blue?\nAnswer:"
    assert found["B"].continuation == (" B" if options == "letters" else " the sky")


def test_a_chat_is_asked_as_the_task_asks() -> None:
    found = option_texts(TASK, likelihood(prompt_format="chat", system="Be brief."))
    messages = found["A"].messages
    assert messages is not None
    assert [one.role for one in messages] == ["system", "user"]
    assert messages[1].content == TASK.prompt
    assert found["A"].continuation == "Answer: A"


async def test_the_most_likely_option_is_the_answer_by_sum_or_by_mean() -> None:
    reader = Table({" grass": (-2.0, 1), " the sky": (-3.0, 2)})
    by_sum = await read_task(TASK, likelihood(options="texts"), reader)
    by_mean = await read_task(TASK, likelihood(options="texts", option_score="mean"), reader)

    assert (by_sum.text, by_sum.outcome) == ("A", Status.WRONG_ANSWER)
    assert (by_mean.text, by_mean.outcome) == ("B", Status.ACCEPTED)
    assert by_mean.option_logprobs == {"A": -2.0, "B": -3.0}
    assert by_mean.option_tokens == {"A": 1, "B": 2}


async def test_an_option_that_is_not_read_leaves_the_task_without_a_score() -> None:
    found = await read_task(TASK, likelihood(), Table({" A": (-1.0, 1)}))
    assert found.outcome is None
    assert found.failure is not None
