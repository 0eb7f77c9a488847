"""The OpenAI-compatible routes: completions, chat completions, models; streaming included.

Requests are closed: a parameter that would change the answer and is not supported is refused,
never ignored. Each answer names the weights in `policy` and, shortened, in `system_fingerprint`.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from assay_inference.front import Front
from assay_inference.vocabulary import Vocabulary
from assay_shared.context import request_id
from assay_shared.errors import AssayError, InvalidInput, NotFound, to_body
from assay_shared.together import together
from assay_shared.types import Completion, Message, PolicyVersion, SamplingParams

Json = dict[str, JsonValue]

_DEFAULT_MAX_TOKENS = 16
_MAX_PROMPTS = 256


class SamplingFields(BaseModel):
    """What both kinds of completion take."""

    model_config = ConfigDict(extra="forbid")

    model: str
    n: int = Field(default=1, ge=1, le=256)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool = False
    stream_options: dict[str, JsonValue] | None = None
    user: str | None = None
    presence_penalty: Literal[0] = 0
    frequency_penalty: Literal[0] = 0

    def sampling(self, max_tokens: int) -> SamplingParams:
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return SamplingParams(
            n=self.n,
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            stop=stop,
            seed=self.seed,
        )


class CompletionRequest(SamplingFields):
    """POST /v1/completions. `prompt`: a text, token ids, or a list of either."""

    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: Annotated[int, Field(ge=1)] = _DEFAULT_MAX_TOKENS
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


class ChatRequest(SamplingFields):
    """POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool = False
    top_logprobs: Literal[0] | None = None

    def limit(self) -> int:
        return self.max_completion_tokens or self.max_tokens or _DEFAULT_MAX_TOKENS


class Prompt(BaseModel):
    """One prompt's token ids and its completions."""

    token_ids: list[int]
    completions: list[Completion]


def add_routes(app: FastAPI, model_name: str) -> None:
    """Add the routes; the engine and the policy are in `app.state` once the app has started."""

    def known_engine(model: str) -> Front:
        if model != model_name:
            raise NotFound(f"the model here is {model_name!r}, not {model!r}", field="model")
        front: Front = app.state.front
        return front

    @app.get("/v1/models")
    async def models() -> Json:
        """The one model, and the weights it has now."""
        return {"object": "list", "data": [_card(model_name, app.state.policy.status.policy)]}

    @app.post("/v1/completions", response_model=None)
    async def completions(request: CompletionRequest) -> Json | StreamingResponse:
        """Complete texts or token ids as they stand."""
        engine = known_engine(request.model)
        sampling = request.sampling(request.max_tokens)
        encode = engine.vocabulary.encode
        prompts = [encode(p) if isinstance(p, str) else p for p in request.prompts()]
        if len(prompts) > _MAX_PROMPTS or not all(prompts):
            raise InvalidInput(f"give 1 to {_MAX_PROMPTS} prompts, none empty", field="prompt")
        if request.stream:
            if len(prompts) > 1:
                raise InvalidInput("streaming takes one prompt", field="prompt")
            return await _stream(engine, prompts[0], sampling, TextChunks(model_name))
        drawn = await _draw(engine, prompts, sampling)
        decoder = None if request.logprobs is None else engine.vocabulary
        choices = [
            _text_choice(completion, index, decoder)
            for index, completion in enumerate(c for p in drawn for c in p.completions)
        ]
        return _envelope("cmpl", "text_completion", model_name, drawn) | {"choices": choices}

    @app.post("/v1/chat/completions", response_model=None)
    async def chat(request: ChatRequest) -> Json | StreamingResponse:
        """Answer a conversation through the model's chat template."""
        engine = known_engine(request.model)
        sampling = request.sampling(request.limit())
        prompt = engine.vocabulary.encode_chat(tuple(request.messages))
        if request.stream:
            return await _stream(engine, prompt, sampling, ChatChunks(model_name))
        drawn = await _draw(engine, [prompt], sampling)
        decoder = engine.vocabulary if request.logprobs else None
        choices = [
            _chat_choice(completion, index, decoder)
            for index, completion in enumerate(drawn[0].completions)
        ]
        return _envelope("chatcmpl", "chat.completion", model_name, drawn) | {"choices": choices}


def _card(model_name: str, policy: PolicyVersion | None) -> Json:
    card: Json = {"id": model_name, "object": "model", "created": 0, "owned_by": "assay"}
    return card | {"policy": policy.model_dump() if policy else None}


async def _draw(engine: Front, prompts: list[list[int]], sampling: SamplingParams) -> list[Prompt]:
    drawn = await together(engine.generate(prompt, sampling) for prompt in prompts)
    return [
        Prompt(token_ids=prompt, completions=completions)
        for prompt, completions in zip(prompts, drawn, strict=True)
    ]


def _fingerprint(policy: PolicyVersion) -> str:
    return f"v{policy.version}-{policy.digest[:12]}"


def _envelope(prefix: str, kind: str, model_name: str, drawn: list[Prompt]) -> Json:
    completions = [completion for prompt in drawn for completion in prompt.completions]
    num_in = sum(len(prompt.token_ids) for prompt in drawn)
    num_out = sum(len(completion.token_ids) for completion in completions)
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model_name,
        "system_fingerprint": _fingerprint(completions[0].policy),
        "policy": completions[0].policy.model_dump(),
        "usage": {
            "prompt_tokens": num_in,
            "completion_tokens": num_out,
            "total_tokens": num_in + num_out,
        },
    }


def _text_choice(completion: Completion, index: int, decoder: Vocabulary | None) -> JsonValue:
    """`decoder` turns ids into the texts that log-probabilities are shown with, if asked for."""
    shown: JsonValue = None
    if decoder is not None:
        shown = {
            "tokens": [decoder.decode([token]) for token in completion.token_ids],
            "token_logprobs": list(completion.logprobs),
            "top_logprobs": None,
            "text_offset": None,
        }
    return {
        "index": index,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "logprobs": shown,
    }


def _chat_choice(completion: Completion, index: int, decoder: Vocabulary | None) -> JsonValue:
    shown: JsonValue = None
    if decoder is not None:
        pairs = zip(completion.token_ids, completion.logprobs, strict=True)
        shown = {
            "content": [
                {"token": decoder.decode([t]), "logprob": p, "bytes": None, "top_logprobs": []}
                for t, p in pairs
            ]
        }
    return {
        "index": index,
        "message": {"role": "assistant", "content": completion.text},
        "finish_reason": completion.finish_reason,
        "logprobs": shown,
    }


class TextChunks:
    """What a streamed text completion is made of."""

    prefix = "cmpl"
    kind = "text_completion"

    def __init__(self, model_name: str) -> None:
        self._base: Json = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "object": self.kind,
            "created": int(time.time()),
            "model": model_name,
        }

    def text(self, index: int, text: str) -> Json:
        return self._base | {"choices": [self._choice(index, text, None)]}

    def end(self, index: int, completion: Completion) -> Json:
        policy = completion.policy
        choice = self._choice(index, "", completion.finish_reason)
        named: Json = {"system_fingerprint": _fingerprint(policy), "policy": policy.model_dump()}
        return self._base | named | {"choices": [choice]}

    def _choice(self, index: int, text: str, finish_reason: str | None) -> JsonValue:
        return {"index": index, "text": text, "finish_reason": finish_reason, "logprobs": None}


class ChatChunks(TextChunks):
    """What a streamed chat completion is made of."""

    prefix = "chatcmpl"
    kind = "chat.completion.chunk"

    def _choice(self, index: int, text: str, finish_reason: str | None) -> JsonValue:
        delta: JsonValue = {"role": "assistant", "content": text} if text else {}
        return {"index": index, "delta": delta, "finish_reason": finish_reason, "logprobs": None}


async def _stream(
    engine: Front, prompt: list[int], sampling: SamplingParams, chunks: TextChunks
) -> StreamingResponse:
    """Server-sent events: texts as they are drawn, an end for each sample, then [DONE].

    What fails before the first text is raised, so that it still gets its own HTTP status.
    """
    texts: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()
    drawing = asyncio.ensure_future(
        engine.generate(prompt, sampling, lambda index, text: texts.put_nowait((index, text)))
    )
    drawing.add_done_callback(lambda _: texts.put_nowait(None))
    first = await texts.get()
    if first is None:
        await drawing
    return StreamingResponse(_events(drawing, first, texts, chunks), media_type="text/event-stream")


async def _events(
    drawing: asyncio.Future[list[Completion]],
    item: tuple[int, str] | None,
    texts: asyncio.Queue[tuple[int, str] | None],
    chunks: TextChunks,
) -> AsyncIterator[str]:
    try:
        while item is not None:
            yield _event(chunks.text(*item))
            item = await texts.get()
        for index, completion in enumerate(await drawing):
            yield _event(chunks.end(index, completion))
        yield "data: [DONE]\n\n"
    except AssayError as error:
        # The answer has begun with 200: an error event is what OpenAI clients raise from.
        yield _event(to_body(error, "inference", request_id()).model_dump(mode="json"))
    finally:
        drawing.cancel()  # the client may have gone: nothing is drawn for nobody


def _event(payload: object) -> str:
    return f"data: {json.dumps(payload)}\n\n"
