"""Messages and tools of OpenAI requests, and their conversion for chat templates."""

import json
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    model_validator,
)

from assay_inference.tokenizer.chat_template import Turn
from assay_shared.errors import InvalidInput


class Closed(BaseModel):
    """Base of request models: unknown fields are refused, and nulls count as missing."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class TextPart(Closed):
    """A text part of a message; other kinds of parts are refused."""

    type: Literal["text"]
    text: str


Content = str | list[TextPart]


def _parts(content: object) -> object:
    """Return a text as a list with one part.

    Otherwise an error would name a member of the union instead of a place in the request.
    """
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class FunctionCall(Closed):
    """A function's name and its `arguments`, a JSON object as text."""

    name: str
    arguments: str


class ToolCall(Closed):
    """A call made by the model in an earlier turn."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(Closed):
    """A turn of a conversation. A tool's answer names the call in `tool_call_id`.

    `name` tells participants of the same role apart, if the chat template shows it.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[
        list[TextPart], FailFast(), BeforeValidator(_parts, json_schema_input_type=Content)
    ] = Field(default=[])
    tool_calls: Annotated[list[ToolCall], FailFast()] = Field(default=[])
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.tool_calls and self.role != "assistant":
            raise ValueError("tool_calls go with the role assistant")
        if self.tool_call_id and self.role != "tool":
            raise ValueError("tool_call_id goes with the role tool")
        return self

    @property
    def is_of_tools(self) -> bool:
        return self.role == "tool" or bool(self.tool_calls)

    def turn(self, *, knows_developer: bool) -> Turn:
        """Return the turn for a chat template, with a call's arguments as an object.

        For a template without the role developer, the role becomes system.

        Raises:
            InvalidInput: the arguments of a call are not a JSON object.
        """
        is_unknown = self.role == "developer" and not knows_developer
        text = "".join(part.text for part in self.content)
        turn: Turn = {"role": "system" if is_unknown else self.role, "content": text}
        if self.tool_calls:
            turn["tool_calls"] = [_template_call(call) for call in self.tool_calls]
        named = {"tool_call_id": self.tool_call_id, "name": self.name}
        return turn | {key: value for key, value in named.items() if value is not None}


def _template_call(call: ToolCall) -> JsonValue:
    try:
        arguments = json.loads(call.function.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise InvalidInput(
            f"the arguments of {call.function.name} are not a JSON object",
            field="messages.tool_calls",
        )
    function: JsonValue = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


class FunctionTool(Closed):
    """A function offered to the model."""

    class Function(Closed):
        """A function's name, description and `parameters`, a JSON schema."""

        name: str
        description: str | None = None
        parameters: dict[str, JsonValue] | None = None
        strict: Literal[False] = False

    type: Literal["function"]
    function: Function

    def turn(self) -> Turn:
        return {
            "type": "function",
            "function": self.function.model_dump(exclude_none=True, exclude={"strict"}),
        }
