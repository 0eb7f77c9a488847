"""Bodies of OpenAI requests: each field with an effect on the answer is honoured or refused.

An unknown field is refused by name. A null counts as a missing field. Fields without an effect on
the answer (`user`, `metadata`, the fields for providers' caches and billing) are accepted and
ignored. Options unknown to OpenAI are vLLM's, under vLLM's names.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, FailFast, Field, JsonValue, PlainValidator, model_validator

from assay_inference.api.openai_messages import ChatMessage, Closed, FunctionTool
from assay_inference.tokenizer.chat_template import Turn
from assay_shared.errors import InvalidInput
from assay_shared.types import MAX_MESSAGES, SamplingParams, Structure

_DEFAULT_MAX_TOKENS = 16
_MAX_STOPS = 8
_MAX_TOP_LOGPROBS = 20
_MAX_PROMPTS = 256
_MAX_MESSAGES = 10_000
#: Name of the answer's form in an engine's errors; requests have two other names for it.
_STRUCTURE = "sampling.structure"


def _token_id(given: object) -> object:
    # A key of JSON is a text; Python's `int` would read "1_0" too.
    if isinstance(given, str) and not (given.isascii() and given.isdigit()):
        raise ValueError("must be a token id")
    return given


TokenId = Annotated[int, BeforeValidator(_token_id)]


def _stops(given: object) -> list[str]:
    """Return the stop strings of a text or a list.

    With a pydantic union instead, an error would name the union's members.
    """
    stops = [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops):
        raise ValueError("must be a text or a list of texts, none empty")
    if len(stops) > _MAX_STOPS:
        raise ValueError(f"has at most {_MAX_STOPS} texts, not {len(stops)}")
    return stops


def _is_ids(given: object) -> bool:
    # A bool is an int in Python, but not a token id.
    return isinstance(given, list) and bool(given) and all(type(one) is int for one in given)


def _prompts(given: object) -> list[str | list[int]]:
    """Return a text or token ids for each prompt.

    With a pydantic union instead, each item would give a separate error.
    """
    if isinstance(given, str) or _is_ids(given):
        given = [given]
    if not isinstance(given, list):
        raise ValueError("must be a text, token ids, or a list of either")
    if len(given) > _MAX_PROMPTS and not isinstance(given[0], str | list):
        raise ValueError("has an item that is not a token id")
    if not 0 < len(given) <= _MAX_PROMPTS:
        raise ValueError(f"must have 1 to {_MAX_PROMPTS} prompts, not {len(given)}")
    if not all((one and isinstance(one, str)) or _is_ids(one) for one in given):
        raise ValueError("must be a text, token ids, or a list of either, none empty")
    return given


class StreamOptions(Closed):
    """Options of streaming. `include_usage`: a last chunk without choices has the token counts."""

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class NamedSchema(Closed):
    """A JSON schema in OpenAI's wrapper."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, JsonValue] = Field(alias="schema")
    strict: bool = True


class ResponseFormat(Closed):
    """The required form of an answer: free text, any JSON object, or JSON of a schema."""

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


class StructuredOutputs(Closed):
    """The required form of an answer as vLLM has it: exactly one of the fields."""

    json_: dict[str, JsonValue] | None = Field(default=None, alias="json")
    regex: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    choice: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1000)]],
        Field(max_length=1000),
        FailFast(),
    ] = Field(default=[])
    json_object: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = (self.json_, self.regex, self.choice or None, self.json_object)
        if sum(one is not None for one in given) != 1:
            raise ValueError("give exactly one of json, regex, choice and json_object")
        return self

    def structure(self) -> Structure:
        return Structure(
            json_schema=self.json_,
            regex=self.regex,
            choice=tuple(self.choice) or None,
            json_object=bool(self.json_object),
        )


class SamplingFields(Closed):
    """The fields shared by text and chat completions."""

    model: str
    n: int = Field(default=1, ge=1, le=256)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    stop: Annotated[list[str], PlainValidator(_stops, json_schema_input_type=str | list[str])] = (
        Field(default=[])
    )
    seed: int | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    logit_bias: Annotated[
        dict[TokenId, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)
    ] = Field(default={})
    response_format: ResponseFormat = ResponseFormat(type="text")
    #: -1 and 0: all tokens.
    top_k: int = Field(default=0, ge=-1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=10)
    stop_token_ids: Annotated[list[int], Field(max_length=64), FailFast()] = Field(default=[])
    ignore_eos: bool = False
    min_tokens: int = Field(default=0, ge=0)
    structured_outputs: StructuredOutputs | None = None
    #: Number of most probable tokens to return at each place of the prompt.
    prompt_logprobs: int | None = Field(default=None, ge=0, le=_MAX_TOP_LOGPROBS)
    #: Return the token ids of the prompt and of the answer.
    return_token_ids: bool = False

    #: The caller's names of fields with another name in the engines' errors.
    names: ClassVar[dict[str, str]] = Field(default={})

    def check(self) -> None:
        """Raise InvalidInput if fields contradict each other."""
        if self.stream_options is not None and not self.stream:
            raise InvalidInput("goes with stream: true", field="stream_options")
        if self.structured_outputs is not None and self.response_format.type != "text":
            raise InvalidInput("does not go with response_format", field="structured_outputs")
        form = "response_format" if self.structured_outputs is None else "structured_outputs"
        for name in ("min_tokens", "ignore_eos"):
            if self.structure is not None and getattr(self, name):
                raise InvalidInput(
                    f"does not go with {form}: the form says where an answer ends", field=name
                )
        if self.stream and self.prompt_logprobs is not None:
            raise InvalidInput("does not go with stream: true", field="prompt_logprobs")

    def sampling(self, max_tokens: int, top_logprobs: int) -> SamplingParams:
        """Return the sampling parameters for the engine.

        Raises:
            InvalidInput: `min_tokens` is larger than `max_tokens`.
        """
        if self.min_tokens > max_tokens:
            raise InvalidInput(f"must be at most {max_tokens}, as max_tokens", field="min_tokens")
        return SamplingParams(
            n=self.n,
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=max(self.top_k, 0),
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=self.logit_bias,
            stop=tuple(self.stop),
            stop_token_ids=tuple(self.stop_token_ids),
            ignore_eos=self.ignore_eos,
            min_tokens=self.min_tokens,
            seed=self.seed,
            top_logprobs=top_logprobs,
            structure=self.structure,
        )

    @property
    def structure(self) -> Structure | None:
        """The required form of the answer, or None for free text."""
        if self.structured_outputs is not None:
            return self.structured_outputs.structure()
        return self.response_format.structure()

    @property
    def includes_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def name_of(self, field: str | None) -> str | None:
        """Return the caller's name of a field in an engine's error."""
        if field == _STRUCTURE:
            return "response_format" if self.structured_outputs is None else "structured_outputs"
        if field in self.names:
            return self.names[field]
        return field.removeprefix("sampling.") if field else field


class CompletionRequest(SamplingFields):
    """The body of POST /v1/completions. `prompt`: a text, token ids, or a list of either."""

    prompt: Annotated[
        list[str | list[int]],
        PlainValidator(
            _prompts, json_schema_input_type=str | list[str] | list[int] | list[list[int]]
        ),
    ]
    #: 0 requires `echo`: the engine reads the prompt and samples nothing.
    max_tokens: Annotated[int, Field(ge=0)] = _DEFAULT_MAX_TOKENS
    #: Return each token's log-probability, and those of this number of most probable tokens.
    logprobs: Annotated[int, Field(ge=0, le=_MAX_TOP_LOGPROBS)] | None = None
    echo: bool = False
    best_of: Literal[1] = 1
    suffix: None = None

    names: ClassVar[dict[str, str]] = {
        "token_ids": "prompt",
        "sampling.top_logprobs": "logprobs",
    }

    def check(self) -> None:
        super().check()
        if self.max_tokens == 0 and not self.echo:
            raise InvalidInput("0 requires echo: true", field="max_tokens")
        if self.max_tokens == 0 and self.stream:
            raise InvalidInput("does not go with max_tokens: 0", field="stream")
        if self.stream and len(self.prompt) > 1:
            raise InvalidInput("must be a single prompt with stream: true", field="prompt")


class ChatRequest(SamplingFields):
    """The body of POST /v1/chat/completions. Without a limit, an answer may fill the context."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES), FailFast()]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=_MAX_TOP_LOGPROBS)
    #: vLLM's field: variables for the chat template by name, such as Qwen3's `enable_thinking`.
    chat_template_kwargs: Annotated[dict[str, JsonValue], Field(max_length=64)] = Field(default={})
    tools: Annotated[list[FunctionTool], Field(max_length=128), FailFast()] = Field(default=[])
    tool_choice: Literal["auto", "none"] = "auto"
    parallel_tool_calls: Literal[True] = True
    modalities: list[Literal["text"]] = Field(default=["text"])
    store: Literal[False] = False
    service_tier: Literal["auto", "default"] = "auto"
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, JsonValue] | None = None
    prompt_cache_retention: str | None = None

    names: ClassVar[dict[str, str]] = {"token_ids": "messages", "template": "chat_template_kwargs"}

    def check(self) -> None:
        super().check()
        if self.top_logprobs and not self.logprobs:
            raise InvalidInput("goes with logprobs: true", field="top_logprobs")
        if len({self.max_tokens, self.max_completion_tokens} - {None}) == 2:
            raise InvalidInput("differs from max_completion_tokens", field="max_tokens")

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    def name_of(self, field: str | None) -> str | None:
        if field == "sampling.max_tokens" and self.limit is None:
            return "messages"
        if field == "sampling.max_tokens" and self.max_completion_tokens is not None:
            return "max_completion_tokens"
        return super().name_of(field)

    @property
    def offered(self) -> list[Turn]:
        """The tools offered to the model."""
        return [tool.turn() for tool in self.tools] if self.tool_choice == "auto" else []
