"""Conversations as token ids, through the tokenizer's chat template."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.sandbox
from pydantic import JsonValue

from assay_shared.errors import InvalidInput
from assay_shared.types import Message

if TYPE_CHECKING:  # only a type: it takes seconds to import
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

#: A turn, or a tool, as templates read it.
Turn = dict[str, JsonValue]
#: Stands for a reply whose ids are known already; no template changes it.
_REPLY = "assay-reply-7f3a"
_MAX_SHOWN = 64
#: What a template's own arithmetic, look-ups and calls raise.
_OF_TEMPLATES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)


def encode(tokenizer: "PreTrainedTokenizerBase", messages: Sequence[Message]) -> list[int]:
    """Ids of a conversation, ready for the answer.

    Raises:
        InvalidInput: the model has no chat template.
    """
    turns = [message.model_dump() for message in messages]
    return encode_text(tokenizer, render_turns(tokenizer, turns))


def render_turns(
    tokenizer: "PreTrainedTokenizerBase",
    turns: Sequence[Turn],
    tools: Sequence[Turn] = (),
    variables: Mapping[str, JsonValue] | None = None,
) -> str:
    """Return the text of turns as the template reads them, those of tools included.

    It is told of `tools`, and of `variables` by their names.

    Raises:
        InvalidInput: the model has no chat template, or one that refuses these turns, or does not
            read one of `variables`.
    """
    _check_variables(tokenizer, variables or {}, tools)
    return _rendered(tokenizer, turns, tools, variables or {})


def render_further(tokenizer: "PreTrainedTokenizerBase", messages: Sequence[Message]) -> str:
    """Return the text of further turns after a reply, with what the template puts after that.

    Raises:
        InvalidInput: the model has no chat template, or one that does not show a reply as it is.
    """
    before = [Message(role="user", content="?"), Message(role="assistant", content=_REPLY)]
    turns: list[Turn] = [message.model_dump() for message in (*before, *messages)]
    _, found, after = _rendered(tokenizer, turns).partition(_REPLY)
    if not found:
        raise InvalidInput("the chat template does not show replies as they are", field="then")
    return after


def go_on(
    token_ids: Sequence[int], further_ids: Sequence[int], end_ids: Collection[int]
) -> list[int]:
    """Return `token_ids`, which end with a reply, and the ids of further turns after it.

    The reply is never tokenised anew: the ids that a policy sampled are seldom those that its text
    would give. What the template puts after a reply comes once, whether the reply ended itself or
    was cut off.
    """
    if further_ids and further_ids[0] in end_ids and token_ids[-1] in end_ids:
        further_ids = further_ids[1:]
    return [*token_ids, *further_ids]


def _rendered(
    tokenizer: "PreTrainedTokenizerBase",
    turns: Sequence[Turn],
    tools: Sequence[Turn] = (),
    variables: Mapping[str, JsonValue] = MappingProxyType({}),
) -> str:
    if tokenizer.chat_template is None:
        raise InvalidInput("this model has no chat template", field="messages")
    try:
        text = tokenizer.apply_chat_template(
            list(turns),  # type: ignore[arg-type]  # turns of tools hold more than texts
            tools=list(tools) or None,
            tokenize=False,
            add_generation_prompt=True,
            **dict[str, Any](variables),
        )
    except jinja2.TemplateError as error:
        raise InvalidInput(f"the chat template refuses this: {error}", field="messages") from error
    except _OF_TEMPLATES as error:
        what = f"{type(error).__name__}: {error!s:.200}"
        raise InvalidInput(f"the chat template fails on this: {what}", field="messages") from error
    return str(text)


def _check_variables(
    tokenizer: "PreTrainedTokenizerBase",
    variables: Mapping[str, JsonValue],
    tools: Sequence[Turn],
) -> None:
    """Refuse what the template would not read, and what the service itself tells it."""
    if not variables:
        return
    if tokenizer.chat_template is None:
        raise InvalidInput("this model has no chat template", field="messages")
    template = tokenizer.get_chat_template(tools=list(tools) or None)
    try:
        read = _variables_of(template)
    except jinja2.TemplateError as error:
        raise InvalidInput(
            f"the chat template cannot be read: {error}", field="messages"
        ) from error
    own = {"messages", *signature(tokenizer.apply_chat_template).parameters}
    own |= set(tokenizer.special_tokens_map)
    for name in variables:
        if name in own or name not in read:
            shown = ", ".join(sorted(read - own)) or "none"
            raise InvalidInput(
                f"the model's chat template takes no {name[:_MAX_SHOWN]!r}; it takes {shown}",
                field="template",
            )


@lru_cache(maxsize=4)
def _variables_of(template: str) -> frozenset[str]:
    """Return the names that a template reads and does not set itself."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        extensions=["jinja2.ext.loopcontrols", _Generation]
    )
    return frozenset(jinja2.meta.find_undeclared_variables(environment.parse(template)))


class _Generation(jinja2.ext.Extension):
    """The block by which templates mark what the model says; its content counts as it stands."""

    tags = {"generation"}  # noqa: RUF012  # as jinja2 has it

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def encode_text(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    """Ids of a text as it stands."""
    return list(tokenizer.encode(text, add_special_tokens=False))
