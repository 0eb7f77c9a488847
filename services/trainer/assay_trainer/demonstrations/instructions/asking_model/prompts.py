"""The texts for a model, as chats or raw prompts, and the reading of its replies."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay_shared.types import Message, PromptFormat
from assay_trainer.demonstrations.instructions.given.constitution import Principle
from assay_trainer.demonstrations.instructions.given.seeds import Seed

#: Headings of raw prompts. They end a text that goes beyond its part.
TASK, ANSWER, CRITIQUE, REVISION = "Task:", "Answer:", "Critique:", "Revised answer:"
_END = "\n\n"
_NEW = "New tasks for an assistant. Each is complete, and each is of another kind.\n\n"
_ANSWERED = "Tasks with good answers.\n\n"
_NUMBERED = re.compile(r"^[ \t]*(?:(?:task|instruction)[ \t]+)?(\d{1,3})[ \t]*[.):][ \t]+", re.I)
_EMPHASIS = re.compile(r"^\*\*(.+?)\*\*:?[ \t]*|^[\"\u201c](.+)[\"\u201d]$", re.DOTALL)
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class ModelPrompt:
    """A prompt: messages of a chat, or a raw text; and the texts that end the reply."""

    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    stop: tuple[str, ...] = ()

    def parts(self) -> list[str]:
        """Return all texts of the prompt."""
        if self.messages is None:
            return [self.prompt or ""]
        return [one.content for one in self.messages]


def ask_for_new(form: PromptFormat, shown: Sequence[str], wanted: int) -> ModelPrompt:
    """Return the prompt for new instructions, after some examples."""
    if form is PromptFormat.RAW:
        listed = "".join(f"{TASK} {_line(one)}\n\n" for one in shown)
        return ModelPrompt(prompt=f"{_NEW}{listed}{TASK}", stop=(f"\n{ANSWER}",))
    listed = "\n".join(f"{number}. {_line(one)}" for number, one in enumerate(shown, start=1))
    first, last = len(shown) + 1, len(shown) + wanted
    text = (
        f"These are tasks that people give to an assistant:\n\n{listed}\n\n"
        f"Write {wanted} more tasks, numbered from {first} to {last}, a line each. Each must be "
        "complete in itself, and of another kind than the others. Write the tasks alone, without "
        "answers."
    )
    return ModelPrompt(messages=(Message(role="user", content=text),))


def _line(text: str) -> str:
    """Return a text in one line, so that a list shows where it ends."""
    return _SPACES.sub(" ", text).strip()


def read_new(form: PromptFormat, reply: str, is_cut: bool, wanted: int) -> list[str]:
    """Return the instructions of a reply, at most twice as many as wanted.

    Of a reply that was cut off, the last one is not whole.
    """
    found = list(_raw_tasks(reply) if form is PromptFormat.RAW else _numbered(reply))
    if is_cut and found:
        found.pop()
    return [one for one in found if one][: 2 * wanted]


def _raw_tasks(reply: str) -> Iterator[str]:
    for part in reply.split(f"\n{TASK}"):
        yield part.split(_END)[0].strip()


def _numbered(reply: str) -> Iterator[str]:
    """Yield the items of a numbered list; further lines of an item belong to it."""
    item: list[str] | None = None
    for line in reply.splitlines():
        number = _NUMBERED.match(line)
        if number is not None:
            if item is not None:
                yield _bare("\n".join(item))
            item = [line[number.end() :]]
        elif item is not None:
            item.append(line)
    if item is not None:
        yield _bare("\n".join(item))


def _bare(text: str) -> str:
    """Return an item without quotation marks, and without stars of emphasis at its start."""
    text = text.strip()
    found = _EMPHASIS.match(text)
    if found is None:
        return text
    inner = found[1] or found[2]
    return f"{inner} {text[found.end() :]}".strip()


def ask_for_answer(
    form: PromptFormat, instruction: str, shown: Sequence[Seed], history: Sequence[Message]
) -> ModelPrompt:
    """Return the prompt for an answer, behind `history`, or raw behind answered seeds."""
    if form is PromptFormat.CHAT:
        return ModelPrompt(messages=(*history, Message(role="user", content=instruction)))
    pairs = ((one.instruction, one.response or "") for one in shown)
    before = "".join(f"{TASK} {task}\n{ANSWER} {answer}\n\n" for task, answer in pairs)
    return ModelPrompt(
        prompt=f"{_ANSWERED}{before}{TASK} {instruction}\n{ANSWER}",
        stop=(f"\n{TASK}", f"\n{ANSWER}"),
    )


def ask_for_critique(
    form: PromptFormat, asked: ModelPrompt, instruction: str, answer: str, principle: Principle
) -> ModelPrompt:
    """Return the prompt for a critique of an answer."""
    if form is PromptFormat.CHAT:
        assert asked.messages is not None
        return ModelPrompt(
            messages=(
                *asked.messages,
                Message(role="assistant", content=answer),
                Message(role="user", content=principle.critique_request),
            )
        )
    return ModelPrompt(prompt=_criticised(instruction, answer, principle), stop=_STOPS)


def ask_for_revision(
    form: PromptFormat,
    asked: ModelPrompt,
    instruction: str,
    answer: str,
    principle: Principle,
    critique: str,
) -> ModelPrompt:
    """Return the prompt for a revised answer."""
    if form is PromptFormat.CHAT:
        before = ask_for_critique(form, asked, instruction, answer, principle)
        assert before.messages is not None
        return ModelPrompt(
            messages=(
                *before.messages,
                Message(role="assistant", content=critique),
                Message(role="user", content=principle.revision_request),
            )
        )
    text = _criticised(instruction, answer, principle)
    request = f"Revision request: {principle.revision_request}\n{REVISION}"
    return ModelPrompt(prompt=f"{text} {critique}\n\n{request}", stop=_STOPS)


_STOPS = (f"\n{TASK}", "\nCritique request:", "\nRevision request:", f"\n{REVISION}")


def _criticised(instruction: str, answer: str, principle: Principle) -> str:
    return (
        f"{TASK} {instruction}\n{ANSWER} {answer}\n\n"
        f"Critique request: {principle.critique_request}\n{CRITIQUE}"
    )
