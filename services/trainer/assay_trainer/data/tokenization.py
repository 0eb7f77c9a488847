"""Tasks as token ids. The trainer's only place that applies a chat template.

Inference does the same to the same messages with the same tokenizer; the ids it really used come
back with every group.
"""

from collections.abc import Iterable

from jinja2 import TemplateError
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import DatasetError
from assay_shared.types import PromptFormat, Task

#: A chat template may add so many tokens to the texts of a task.
_TEMPLATE_TOKENS = 1024


def prompt_token_ids(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The prompt as the policy sees it, up to where its answer begins."""
    text = task.prompt
    if task.prompt_format is PromptFormat.CHAT:
        turns = [message.model_dump() for message in task.messages]
        text = str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
    return list(tokenizer.encode(text, add_special_tokens=False))


def answered_token_ids(
    task: Task, answer: str, tokenizer: PreTrainedTokenizerBase, *, with_history: bool = False
) -> tuple[list[int], list[bool]]:
    """The prompt and its answer, and which of these ids are to be learnt.

    Args:
        with_history: whether replies in the task's history are learnt like the last one.

    Raises:
        DatasetError: the chat template shows them in another way than they were given.
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


def too_long(
    tasks: Iterable[Task], tokenizer: PreTrainedTokenizerBase, context: int, max_tokens: int
) -> list[tuple[Task, str]]:
    """The tasks whose prompt leaves no room for an answer of `max_tokens`, with the reason.

    A token has at least one byte: what is short in bytes is not tokenised.
    """
    found = []
    for task in tasks:
        num_bytes = sum(len(message.content.encode()) for message in task.messages)
        if num_bytes + _TEMPLATE_TOKENS + max_tokens <= context:
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
