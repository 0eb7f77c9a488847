"""Pairs of answers: prompt with chosen and rejected, as texts, chats, or several styles.

A row:  {"prompt": "...", "chosen": "...", "rejected": "...", "score_chosen": 9.0,
         "score_rejected": 7.0}
Without a prompt, the answers are whole dialogues with the same beginning: chats, or HH-RLHF's
texts ("\\n\\nHuman: ...\\n\\nAssistant: ..."). RM-Bench has lists of answers in three styles.
"""

import re
from collections.abc import Iterator, Mapping

from assay_shared.errors import DatasetError
from assay_shared.types import Message, Role, Task
from assay_trainer.data.importers.alpaca import instruction_of
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row, RowKind
from assay_trainer.data.importers.messages import read_chat, split_chat

_TURN = re.compile(r"\n\n(Human|Assistant):")
_SPEAKERS = {"Human": "user", "Assistant": "assistant"}


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    _check_scores(row)
    yield from _pairs(row, place)


def read_pair(row: Row, stem: str) -> Iterator[tuple[Task, str]]:
    """Yield the task and the worse answer of each pair in a row, whatever scores it has.

    Raises:
        DatasetError: the row has no pair.
    """
    for one in _pairs(row, Place("train", Role.TRAIN, 0, stem)):
        yield one.task, one.rejected or ""


def _pairs(row: Row, place: Place) -> Iterator[ImportedRow]:
    name = f"{place.stem}/{place.split}/{place.number}"
    if isinstance(row.get("chosen"), list) and all(isinstance(o, str) for o in row.items("chosen")):
        chosen, rejected = row.texts("chosen"), row.texts("rejected")
        if len(chosen) != len(rejected):
            raise DatasetError(f"{len(rejected)} for {len(chosen)} chosen", field="rejected")
        chat = [Message(role="user", content=row.text("prompt"))]
        for at, pair in enumerate(zip(chosen, rejected, strict=True)):
            yield _example(f"{name}/{at}", place, chat, *pair)
        return
    before, good = _answer(row, "chosen")
    other, bad = _answer(row, "rejected")
    if before != other:
        raise DatasetError("must begin as chosen does, up to the last reply", field="rejected")
    yield _example(name, place, _asked(row) or before, good, bad)


def _asked(row: Row) -> list[Message]:
    """Return the messages of the prompt; none if the answers hold them."""
    if "prompt" in row and isinstance(row.get("prompt"), list):
        return read_chat(row, "prompt")
    if "prompt" in row:
        return [Message(role="user", content=row.text("prompt"))]
    if "instruction" in row:
        return [Message(role="user", content=instruction_of(row))]
    return []


def _answer(row: Row, name: str) -> tuple[list[Message], str]:
    """Return the messages before an answer, if the field has them, and the answer."""
    if isinstance(row.get(name), list):
        chat = read_chat(row, name)
    elif _asked(row):
        return [], row.text(name)
    else:
        chat = _dialogue(row.text(name), name)
    if not chat or chat[-1].role != "assistant":
        raise DatasetError("the last message must be the assistant's", field=name)
    return chat[:-1], chat[-1].content


def _dialogue(text: str, name: str) -> list[Message]:
    """Return the turns of HH-RLHF's text."""
    begin, *parts = _TURN.split(text)
    if begin.strip() or not parts:
        raise DatasetError("there is no prompt, and no turn of Human: and Assistant:", field=name)
    turns = list(zip(parts[::2], parts[1::2], strict=True))
    if any(not said.strip() for _, said in turns):
        raise DatasetError("has an empty turn", field=name)
    return [
        Message.model_validate({"role": _SPEAKERS[who], "content": said.strip()})
        for who, said in turns
    ]


def _check_scores(row: Row) -> None:
    """Refuse a pair whose scores say that the rejected answer is the better one."""
    metadata = row.value.get("metadata")
    places: list[tuple[str, Mapping[str, object]]] = [("", row.value)]
    if isinstance(metadata, Mapping):
        places.append(("metadata.", metadata))
    for place, values in places:
        good, bad = values.get("score_chosen"), values.get("score_rejected")
        if isinstance(good, int | float) and isinstance(bad, int | float) and good < bad:
            raise DatasetError("chosen has the lower score", field=f"{place}score_chosen")


def _example(name: str, place: Place, chat: list[Message], good: str, bad: str) -> ImportedRow:
    history, prompt = split_chat(chat, "prompt")
    for field, text in (("chosen", good), ("rejected", bad)):
        if not text.strip():
            raise DatasetError("must not be empty", field=field)
    if good == bad:
        raise DatasetError("must differ from chosen", field="rejected")
    task = Task(
        id=name,
        dataset=place.stem,
        role=place.role,
        history=history,
        prompt=prompt,
        rubric="qa.verified",
        gold=good,
        tags={"domain": "chat"},
    )
    return ImportedRow(task, "\n".join(one.content for one in task.messages), bad)


PREFERENCE = PublishedFormat(
    name="preference",
    domain="chat",
    licence="the data's own",
    roles={"train": Role.TRAIN, "validation": Role.VALIDATION, "test": Role.TEST},
    rubric="none: DPO learns from pairs",
    verified=(
        "prompt, chosen, rejected",
        "instruction, input, chosen, rejected",
        "HH-RLHF",
        "RM-Bench",
    ),
    unverified=("chats in chosen and rejected, as trl-lib/ultrafeedback_binarized",),
    read=_read,
    kind=RowKind.PREFERENCES,
)
