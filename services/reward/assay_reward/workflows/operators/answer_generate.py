"""AnswerGenerate: a few steps of reasoning, then the answer."""

from assay_reward.workflows.operators.support.operator import (
    Arguments,
    OperatorContext,
    Record,
    text_in,
)
from assay_reward.workflows.operators.support.prompt_files import prompt_file
from assay_reward.workflows.operators.support.texts import ReplyText

#: Several calls are samples that can differ; otherwise an ensemble has nothing to choose from.
_TEMPERATURE = 0.7
_MARK = "answer:"


async def answer_generate(context: OperatorContext, arguments: Arguments) -> Record:
    """Return the reasoning, and the answer after the last mark; without a mark, the last line."""
    values = {"problem": text_in(arguments, "input")}
    reply = await context.ask(prompt_file("answer_generate"), values, temperature=_TEMPERATURE)
    thought, answer = split_answer(reply)
    return {"thought": ReplyText(thought), "answer": ReplyText(answer)}


def split_answer(reply: str) -> tuple[str, str]:
    """Return the text before the last line that begins with `Answer:`, and the rest after it."""
    lines = reply.strip().splitlines()
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place].strip().strip("*_ ")
        if line.lower().startswith(_MARK):
            first = line[len(_MARK) :].strip("*_ ")
            rest = "\n".join([first, *lines[place + 1 :]]).strip()
            return "\n".join(lines[:place]).strip(), rest or reply.strip()
    return "\n".join(lines[:-1]).strip(), lines[-1].strip() if lines else ""
