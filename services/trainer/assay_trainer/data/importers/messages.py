"""Chats to learn from: `messages` with roles, or ShareGPT's `conversations`.

A row:  {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
"""

from collections.abc import Iterator

from assay_shared.errors import DatasetError
from assay_shared.types import Message, Role, Task
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row, RowKind

_SPEAKERS = {"human": "user", "gpt": "assistant", "user": "user", "assistant": "assistant"}
_SPEAKERS |= {"system": "system"}


def read_chat(row: Row, name: str) -> list[Message]:
    """Return the messages of a field.

    Raises:
        DatasetError: a message has another role, or is empty; names its place.
    """
    value = row.parsed(name) if isinstance(row.get(name), str) else row.items(name)
    if not isinstance(value, list):
        raise DatasetError("must be a list of messages", field=name)
    return [_message(one, f"{name}.{at}") for at, one in enumerate(value)]


def _message(value: object, place: str) -> Message:
    try:
        one = Row(value)
        speaker, text = ("from", "value") if "from" in one else ("role", "content")
        role = one.text(speaker)
        if role not in _SPEAKERS:
            raise DatasetError(f"must be user, assistant or system, not {role!r}", field=speaker)
        return Message.model_validate({"role": _SPEAKERS[role], "content": one.text(text)})
    except DatasetError as error:
        field = f"{place}.{error.field}" if error.field else place
        raise DatasetError(error.message, field=field) from None


def split_chat(chat: list[Message], name: str) -> tuple[tuple[Message, ...], str]:
    """Return the messages before the last one, which must be the user's, and its text.

    Raises:
        DatasetError: the last message is not the user's.
    """
    if not chat or chat[-1].role != "user":
        raise DatasetError("the message before the answer must be the user's", field=name)
    return tuple(chat[:-1]), chat[-1].content


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    name = "messages" if "messages" in row else "conversations"
    chat = read_chat(row, name)
    if not chat or chat[-1].role != "assistant":
        raise DatasetError("the last message must be the assistant's", field=name)
    history, prompt = split_chat(chat[:-1], name)
    task = Task(
        id=f"{place.stem}/{place.split}/{place.number}",
        dataset=place.stem,
        role=place.role,
        history=history,
        prompt=prompt,
        rubric="qa.verified",
        gold=chat[-1].content,
        tags={"domain": "chat"},
    )
    yield ImportedRow(task, "\n".join(one.content for one in task.messages))


MESSAGES = PublishedFormat(
    name="messages",
    domain="chat",
    licence="the data's own",
    roles={"train": Role.TRAIN, "validation": Role.VALIDATION, "test": Role.TEST},
    rubric="qa.verified",
    verified=("messages",),
    unverified=("conversations of ShareGPT",),
    read=_read,
    kind=RowKind.DEMONSTRATIONS,
)
