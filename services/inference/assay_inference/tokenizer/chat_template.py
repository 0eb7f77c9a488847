"""Conversion of conversations to token ids, through the tokenizer's chat template."""

import json
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

#: A turn, or a tool, in the form that templates read.
Turn = dict[str, JsonValue]
#: Placeholder for a reply with known ids; no template changes it.
_REPLY = "assay-reply-7f3a"
_MAX_SHOWN = 64
#: Errors of a template's own arithmetic, look-ups and calls.
_OF_TEMPLATES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)


def encode(tokenizer: "PreTrainedTokenizerBase", messages: Sequence[Message]) -> list[int]:
    """Return the ids of a conversation, ready for the answer.

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
    """Return the text of turns, including turns of tools, ready for the answer.

    The template gets `tools` as a list, and each of `variables` by its name.

    Raises:
        InvalidInput: the model has no chat template, or the template refuses these turns, does
            not read one of `variables` or does not show one of `tools`.
    """
    _check_variables(tokenizer, variables or {}, tools)
    text = _rendered(tokenizer, turns, tools, variables or {})
    _check_shown(text, tools)
    return text


def render_further(
    tokenizer: "PreTrainedTokenizerBase",
    messages: Sequence[Message],
    variables: Mapping[str, JsonValue] = MappingProxyType({}),
) -> str:
    """Return the template's text after a reply: the end of the reply and the further turns.

    Raises:
        InvalidInput: the model has no chat template, or the template changes replies or does not
            read one of `variables`.
    """
    _check_variables(tokenizer, variables, ())
    before = [Message(role="user", content="?"), Message(role="assistant", content=_REPLY)]
    turns: list[Turn] = [message.model_dump() for message in (*before, *messages)]
    _, found, after = _rendered(tokenizer, turns, (), variables).partition(_REPLY)
    if not found:
        raise InvalidInput("the chat template does not show replies as they are", field="then")
    return after


def go_on(
    token_ids: Sequence[int], further_ids: Sequence[int], end_ids: Collection[int]
) -> list[int]:
    """Return `token_ids`, ending with a reply, followed by the ids of further turns.

    The reply is never tokenised again: the ids of its text often differ from the sampled ids. The
    template's end of a reply appears once, after complete and truncated replies alike.
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


def _check_shown(text: str, tools: Sequence[Turn]) -> None:
    for index, tool in enumerate(tools):
        function = tool["function"]
        assert isinstance(function, dict)
        name = str(function["name"])
        if name not in text and json.dumps(name)[1:-1] not in text:
            raise InvalidInput(
                f"the model's chat template does not show the tool {name[:_MAX_SHOWN]!r}",
                field=f"tools.{index}",
            )


def _check_variables(
    tokenizer: "PreTrainedTokenizerBase",
    variables: Mapping[str, JsonValue],
    tools: Sequence[Turn],
) -> None:
    """Refuse variables unused by the template, and names set by the service itself."""
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
    """Return the names read by a template but not set in it."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        extensions=["jinja2.ext.loopcontrols", _Generation]
    )
    return frozenset(jinja2.meta.find_undeclared_variables(environment.parse(template)))


class _Generation(jinja2.ext.Extension):
    """The template block around the model's replies; its content is kept unchanged."""

    tags = {"generation"}  # noqa: RUF012  # as jinja2 has it

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def encode_text(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    """Return the ids of a text, without added special tokens."""
    return list(tokenizer.encode(text, add_special_tokens=False))
