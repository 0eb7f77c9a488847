"""Tasks as token ids; the trainer applies chat templates only here.

Inference applies the same template to the same messages with the same tokenizer; its ids come
back with every group.
"""

from collections.abc import Iterable

from jinja2 import TemplateError
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import DatasetError
from assay_shared.text.first_token import with_first_token
from assay_shared.types import PromptFormat, Task

#: A chat template may add this number of tokens to the texts of a task.
_TEMPLATE_TOKENS = 1024


def prompt_token_ids(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the prompt as the policy sees it, up to the start of its answer."""
    if task.prompt_format is PromptFormat.RAW:
        ids = list(tokenizer.encode(task.prompt, add_special_tokens=False))
        return with_first_token(tokenizer, ids)
    return list(tokenizer.encode(_rendered(task, tokenizer), add_special_tokens=False))


def answered_token_ids(
    task: Task, answer: str, tokenizer: PreTrainedTokenizerBase, *, with_history: bool = False
) -> tuple[list[int], list[bool]]:
    """Return the ids of the prompt and its answer, and a mask of the ids to learn.

    Args:
        with_history: also learn the replies in the task's history.

    Raises:
        DatasetError: the chat template changes a reply.
    """
    ids: list[int] = []
    is_reply: list[bool] = []
    for at, message in enumerate(task.history if with_history else ()):
        if message.role == "assistant":
            before = task.model_copy(update={"history": task.history[: at - 1]})
            earlier = before.model_copy(update={"prompt": task.history[at - 1].content})
            _go_on(ids, is_reply, earlier, message.content, tokenizer)
    _go_on(ids, is_reply, task, answer, tokenizer)
    return ids, is_reply


def _go_on(
    ids: list[int],
    is_reply: list[bool],
    task: Task,
    reply: str,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Add the prompt of `task` as far as it goes beyond `ids`, and the reply to it."""
    prompt = prompt_token_ids(task, tokenizer)
    if prompt[: len(ids)] != ids:
        raise DatasetError("the chat template does not show a reply as it was given", field=task.id)
    answer = [
        *tokenizer.encode(reply, add_special_tokens=False),
        int(tokenizer.eos_token_id),
    ]
    is_reply += [False] * (len(prompt) - len(ids)) + [True] * len(answer)
    ids[:] = prompt + answer


def refused_by_template(
    tasks: Iterable[Task], tokenizer: PreTrainedTokenizerBase
) -> list[tuple[Task, str]]:
    """Return the chats that the policy's template refuses, with its reason."""
    found = []
    for task in tasks:
        try:
            if task.prompt_format is not PromptFormat.RAW:
                _rendered(task, tokenizer)
        except TemplateError as error:
            found.append((task, f"the chat template refuses it: {error}"))
    return found


def _rendered(task: Task, tokenizer: PreTrainedTokenizerBase) -> str:
    turns = [message.model_dump() for message in task.messages]
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
