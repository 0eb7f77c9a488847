"""Tasks as token ids; the trainer applies chat templates only here.

Inference applies the same template to the same messages with the same tokenizer; its ids come
back with every group.
"""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import TemplateError
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import ConfigError, DatasetError
from assay_shared.text.first_token import with_first_token
from assay_shared.types import Message, PromptFormat, Task

#: A chat template may add this number of tokens to the texts of a task.
_TEMPLATE_TOKENS = 1024
_END_FILES = ("config.json", "generation_config.json")
_REPLY = "reply"


def prompt_token_ids(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the prompt as the policy sees it, up to the start of its answer."""
    if task.prompt_format is PromptFormat.RAW:
        ids = list(tokenizer.encode(task.prompt, add_special_tokens=False))
        return with_first_token(tokenizer, ids)
    return list(tokenizer.encode(_rendered(task.messages, tokenizer), add_special_tokens=False))


@lru_cache(maxsize=16)
def end_ids(folder: Path) -> frozenset[int]:
    """Return the ids at which a model's files say that an answer ends."""
    found: set[object] = set()
    for name in _END_FILES:
        file = folder / name
        if file.is_file():
            value = json.loads(file.read_text()).get("eos_token_id")
            found |= set(value) if isinstance(value, list) else {value}
    return frozenset(one for one in found if isinstance(one, int))


def answer_end_id(prompt_format: PromptFormat, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id that a taught answer ends with.

    In a chat it is the one that the template writes behind a reply, such as `<end_of_turn>`, if
    engines stop at it; else, and behind a raw prompt, the tokenizer's own end, or the model's.

    Raises:
        ConfigError: neither the tokenizer nor the model's files name an end.
    """
    own, name = tokenizer.eos_token_id, tokenizer.name_or_path
    ends = set(end_ids(Path(name))) if name else set()
    if own is not None:
        ends.add(int(own))
    if not ends:
        raise ConfigError(
            "the policy's tokenizer has no token that ends an answer",
            field="policy",
            hint="name eos_token in its tokenizer_config.json",
        )
    last = min(ends) if own is None else int(own)
    if prompt_format is PromptFormat.RAW:
        return last
    chat = [{"role": "user", "content": "question"}, {"role": "assistant", "content": _REPLY}]
    try:
        text = str(tokenizer.apply_chat_template(chat, tokenize=False))
    except TemplateError:
        return last
    behind = tokenizer.encode(text.rpartition(_REPLY)[2], add_special_tokens=False)
    return next((one for one in behind if one in ends), last)


def answered_token_ids(
    task: Task, answer: str, tokenizer: PreTrainedTokenizerBase, *, with_history: bool = False
) -> tuple[list[int], list[bool]]:
    """Return the ids of the prompt and its answer, and a mask of the ids to learn.

    Args:
        with_history: also learn the replies in the task's history, but for a greeting, which no
            user asked for.

    Raises:
        DatasetError: the chat template changes a reply.
    """
    ids: list[int] = []
    is_reply: list[bool] = []
    end_id = answer_end_id(task.prompt_format, tokenizer)

    def go_on(prompt: Sequence[int], reply: str) -> None:
        if list(prompt[: len(ids)]) != ids:
            raise DatasetError(
                "the chat template does not show a reply as it was given", field=task.id
            )
        answer = [*tokenizer.encode(reply, add_special_tokens=False), end_id]
        is_reply.extend([False] * (len(prompt) - len(ids)) + [True] * len(answer))
        ids[:] = [*prompt, *answer]

    for at, message in enumerate(task.history if with_history else ()):
        earlier = task.history[:at]
        if message.role == "assistant" and any(one.role == "user" for one in earlier):
            text = _rendered(earlier, tokenizer)
            go_on(tokenizer.encode(text, add_special_tokens=False), message.content)
    go_on(prompt_token_ids(task, tokenizer), answer)
    return ids, is_reply


def refused_by_template(
    tasks: Iterable[Task], tokenizer: PreTrainedTokenizerBase
) -> list[tuple[Task, str]]:
    """Return the chats that the policy's template refuses, with its reason."""
    found = []
    for task in tasks:
        try:
            if task.prompt_format is not PromptFormat.RAW:
                _rendered(task.messages, tokenizer)
        except TemplateError as error:
            found.append((task, f"the chat template refuses it: {error}"))
    return found


def _rendered(messages: Iterable[Message], tokenizer: PreTrainedTokenizerBase) -> str:
    turns = [message.model_dump() for message in messages]
    return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


def too_long(
    tasks: Iterable[Task], tokenizer: PreTrainedTokenizerBase, context: int, max_tokens: int
) -> list[tuple[Task, str]]:
    """Return the tasks without room for an answer of `max_tokens`, with the reason.

    A token has at least one byte: a prompt short in bytes is not tokenised.
    """
    most = most_characters(tokenizer, context)
    found = []
    for task in tasks:
        texts = [message.content for message in task.messages]
        num_bytes = sum(len(text.encode()) for text in texts)
        if num_bytes + _TEMPLATE_TOKENS + max_tokens <= context:
            continue
        if sum(map(len, texts)) > most:
            found.append((task, f"its prompt is longer than a context of {context} tokens"))
            continue
        try:
            num_tokens = len(prompt_token_ids(task, tokenizer))
        except TemplateError as error:
            found.append((task, f"the chat template refuses it: {error}"))
            continue
        if num_tokens + max_tokens > context:
            reason = (
                f"a prompt of {num_tokens} tokens leaves no room for {max_tokens} more in a "
                f"context of {context}"
            )
            found.append((task, reason))
    return found


def too_long_to_learn(
    rows: Iterable[tuple[Task, str]],
    tokenizer: PreTrainedTokenizerBase,
    context: int,
    *,
    with_history: bool = False,
) -> list[tuple[Task, str]]:
    """Return the tasks whose prompt and answer exceed the policy's context, with the reason."""
    most = most_characters(tokenizer, context)
    found = []
    for task, answer in rows:
        texts = [*(message.content for message in task.messages), answer]
        if sum(len(text.encode()) for text in texts) + _TEMPLATE_TOKENS <= context:
            continue
        if sum(map(len, texts)) > most:
            found.append((task, f"its demonstration is longer than a context of {context} tokens"))
            continue
        ids, _ = answered_token_ids(task, answer, tokenizer, with_history=with_history)
        if len(ids) > context:
            reason = f"its demonstration has {len(ids)} tokens, and the policy's context {context}"
            found.append((task, reason))
    return found


def most_characters(tokenizer: PreTrainedTokenizerBase, context: int) -> int:
    """Return the characters that `context` tokens can hold: a longer text is not tokenised."""
    return context * max(map(len, tokenizer.get_vocab()))
