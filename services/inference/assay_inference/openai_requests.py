"""What OpenAI's clients send. Closed: what would change an answer is honoured or refused by name.

A null means that a field was not given. Fields that cannot change an answer (`user`, `metadata`,
what providers use for caches and billing) are taken and have no effect.
"""

import json
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from assay_inference.conversation import Turn
from assay_shared.errors import InvalidInput
from assay_shared.types import MAX_MESSAGES, SamplingParams, Structure

_DEFAULT_MAX_TOKENS = 16
_MAX_STOPS = 8
StopText = Annotated[str, Field(min_length=1)]


class Closed(BaseModel):
    """Refuses what it does not know; leaves nulls out."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


class StreamOptions(Closed):
    """`include_usage`: a last chunk without choices has the number of tokens."""

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class SamplingFields(Closed):
    """What both kinds of completion take."""

    model: str
    n: int = Field(default=1, ge=1, le=256)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    stop: StopText | Annotated[list[StopText], Field(max_length=_MAX_STOPS)] = []
    seed: int | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    presence_penalty: Literal[0] = 0
    frequency_penalty: Literal[0] = 0
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] = {}
    #: Not OpenAI's, but vLLM's: the ids that were sent to the model, and those it said.
    return_token_ids: bool = False

    @model_validator(mode="after")
    def _options_of_a_stream(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options go with stream: true")
        return self

    def sampling(self, max_tokens: int, structure: Structure | None = None) -> SamplingParams:
        return SamplingParams(
            n=self.n,
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop),
            seed=self.seed,
            structure=structure,
        )

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionRequest(SamplingFields):
    """POST /v1/completions. `prompt`: a text, token ids, or a list of either."""

    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: Annotated[int, Field(ge=1)] = _DEFAULT_MAX_TOKENS
    #: 0 and 1 both give that of the token that was drawn.
    logprobs: Annotated[int, Field(ge=0, le=1)] | None = None
    echo: Literal[False] = False
    best_of: Literal[1] = 1
    suffix: None = None

    def prompts(self) -> list[str | list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        if not self.prompt:
            raise InvalidInput("the prompt is empty", field="prompt")
        if isinstance(self.prompt[0], int):
            return [[token for token in self.prompt if isinstance(token, int)]]
        return [prompt for prompt in self.prompt if not isinstance(prompt, int)]


class TextPart(Closed):
    """A piece of a message; other kinds than text are refused."""

    type: Literal["text"]
    text: str


class FunctionCall(Closed):
    """`arguments` is a JSON object, as text."""

    name: str
    arguments: str


class ToolCall(Closed):
    """A call that the model made in an earlier turn."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(Closed):
    """One turn. A tool's answer names the call in `tool_call_id`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[TextPart] = ""
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.tool_calls and self.role != "assistant":
            raise ValueError("tool_calls go with the role assistant")
        if (self.tool_call_id or self.name) and self.role != "tool":
            raise ValueError("tool_call_id and name go with the role tool")
        return self

    @property
    def is_of_tools(self) -> bool:
        return self.role == "tool" or bool(self.tool_calls)

    def turn(self) -> Turn:
        """As chat templates read it: text, and arguments as objects.

        Raises:
            InvalidInput: arguments that are no JSON object.
        """
        text = self.content
        if not isinstance(text, str):
            text = "".join(part.text for part in text)
        turn: Turn = {"role": self.role, "content": text}
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
            f"the arguments of {call.function.name} are no JSON object", field="messages.tool_calls"
        )
    function: JsonValue = {"name": call.function.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


class FunctionTool(Closed):
    """What the model may call: `parameters` is a JSON schema."""

    class Function(Closed):
        """Its name, what it does, and what it takes."""

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


class NamedSchema(Closed):
    """A JSON schema, wrapped as OpenAI has it."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, JsonValue] = Field(alias="schema")
    strict: bool = True


class ResponseFormat(Closed):
    """What the answer must be: free text, any JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None

    @model_validator(mode="after")
    def _schema_where_named(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema goes with the type json_schema, which needs it")
        return self

    def structure(self) -> Structure | None:
        if self.json_schema is not None:
            return Structure(json_schema=self.json_schema.schema_)
        return Structure(json_object=True) if self.type == "json_object" else None


class ChatRequest(SamplingFields):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool = False
    top_logprobs: Literal[0] = 0
    tools: list[FunctionTool] = Field(default=[], max_length=128)
    tool_choice: Literal["auto", "none"] = "auto"
    parallel_tool_calls: Literal[True] = True
    response_format: ResponseFormat = ResponseFormat(type="text")
    modalities: list[Literal["text"]] = ["text"]
    store: Literal[False] = False
    service_tier: Literal["auto", "default"] = "auto"
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, JsonValue] | None = None
    prompt_cache_retention: str | None = None

    @property
    def limit(self) -> int:
        return self.max_completion_tokens or self.max_tokens or _DEFAULT_MAX_TOKENS

    @property
    def offered(self) -> list[Turn]:
        """The tools that the model is told of."""
        return [tool.turn() for tool in self.tools] if self.tool_choice == "auto" else []
