"""The OpenAI-compatible routes: completions, chat completions, models; streaming included."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse

from assay_inference.api.openai_replies import (
    ChatKind,
    Chunks,
    Json,
    OpenAIPrompt,
    TextKind,
    Wanted,
    card,
    chat_answer,
    text_answer,
)
from assay_inference.api.openai_requests import ChatRequest, CompletionRequest, SamplingFields
from assay_inference.api.streaming import Part, draw_parts
from assay_inference.api.tool_calls import MARK
from assay_inference.serving.generate import Generation
from assay_inference.tokenizer.texts import PROMPT_BYTES
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.errors import AssayError, InvalidInput, NotFound, NotReady, to_body
from assay_shared.runtime.gather import gather
from assay_shared.service.auth import needs
from assay_shared.service.bodies.answer import in_slices
from assay_shared.service.bodies.route import up_to
from assay_shared.settings.api_keys import Scope
from assay_shared.telemetry.context import request_id
from assay_shared.types import Completion, FinishReason, PromptLogprobs, SamplingParams

_GENERATES = needs(Scope.INFERENCE_GENERATE) | up_to(PROMPT_BYTES)


def add_routes(app: FastAPI, model_name: str) -> None:
    """Add the routes; `app.state` has the engine and the policy once the app has started."""

    def known_engine(model: str) -> Generation:
        if model != model_name:
            raise NotFound(f"the model here is {model_name!r}, not {model!r}", field="model")
        front: Generation = app.state.front
        return front

    @app.get("/v1/models", openapi_extra=needs(Scope.INFERENCE_READ))
    async def models() -> Json:
        """List the only model, with its present weights."""
        return {"object": "list", "data": [card(model_name, app.state.policy.status.policy)]}

    # A name may have slashes, as on the Hugging Face hub.
    @app.get("/v1/models/{model:path}", openapi_extra=needs(Scope.INFERENCE_READ))
    async def model(model: str) -> Json:
        """Return the model of this name, with its present weights."""
        known_engine(model)
        return card(model_name, app.state.policy.status.policy)

    @app.post("/v1/completions", response_model=None, openapi_extra=_GENERATES)
    async def completions(request: CompletionRequest) -> Json | Response:
        """Complete texts or token ids, without a chat template."""
        engine = known_engine(request.model)
        with _callers_names(request):
            return await _complete(engine, request)

    @app.post("/v1/chat/completions", response_model=None, openapi_extra=_GENERATES)
    async def chat(request: ChatRequest) -> Json | Response:
        """Answer a conversation through the model's chat template."""
        engine = known_engine(request.model)
        with _callers_names(request):
            return await _converse(engine, request)


async def _complete(engine: Generation, request: CompletionRequest) -> Json | Response:
    vocabulary = engine.vocabulary
    sampling = request.sampling(max(request.max_tokens, 1), request.logprobs or 0)
    wanted = Wanted(
        vocabulary=vocabulary,
        logprobs=request.logprobs is not None,
        top_logprobs=request.logprobs or 0,
        prompt_logprobs=request.prompt_logprobs,
        echo=request.echo,
        token_ids=request.return_token_ids,
        usage=request.includes_usage,
    )
    await _prepare(wanted)
    for prompt in request.prompt:
        if not isinstance(prompt, str):
            vocabulary.check_length(prompt, least=min(request.max_tokens, 1))
    with _of_the_prompt():
        prompts = await _encoded(engine, request.prompt, sampling.n)
    for prompt in prompts:
        if not prompt:
            raise InvalidInput("a prompt has no tokens", field="prompt")
        vocabulary.check_ids(prompt, "prompt")
        vocabulary.check_length(prompt, least=min(request.max_tokens, 1))
    if request.stream:
        return await _stream(engine, prompts[0], sampling, TextKind(wanted), request)
    ask = _only_read if request.max_tokens == 0 else _draw
    drawn = await ask(engine, prompts, sampling, wanted)
    answer = await asyncio.to_thread(text_answer, request.model, drawn, wanted)
    return await _written(answer) if wanted.tells_tokens else answer


async def _converse(engine: Generation, request: ChatRequest) -> Json | Response:
    vocabulary = engine.vocabulary
    wanted = Wanted(
        vocabulary=vocabulary,
        logprobs=request.logprobs,
        top_logprobs=request.top_logprobs,
        prompt_logprobs=request.prompt_logprobs,
        token_ids=request.return_token_ids,
        calls=_may_call(request, vocabulary),
        usage=request.includes_usage,
    )
    await _prepare(wanted)
    knows = vocabulary.template_knows("developer")
    turns = [message.turn(knows_developer=knows) for message in request.messages]
    variables = request.chat_template_kwargs
    with _of_the_prompt():
        prompt = await engine.encode_turns(turns, request.offered, variables, request.n)
    vocabulary.check_length(prompt, least=1)
    sampling = request.sampling(request.limit or engine.room_after(prompt), request.top_logprobs)
    if request.stream:
        return await _stream(engine, prompt, sampling, ChatKind(wanted), request)
    (drawn,) = await _draw(engine, [prompt], sampling, wanted)
    answer = await asyncio.to_thread(chat_answer, request.model, drawn, wanted)
    return await _written(answer) if wanted.tells_tokens else answer


async def _encoded(
    engine: Generation, prompts: Sequence[str | list[int]], num_samples: int
) -> list[list[int]]:
    """Return the ids of each prompt; all texts are tokenised together."""
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    ids = iter(await engine.encode(texts, len(prompts) * num_samples) if texts else ())
    return [next(ids) if isinstance(prompt, str) else prompt for prompt in prompts]


@contextmanager
def _callers_names(request: SamplingFields) -> Iterator[None]:
    """Check the combination of a request's fields, and use the caller's field names in errors."""
    try:
        request.check()
        yield
    except AssayError as error:
        error.field = request.name_of(error.field)
        raise


@contextmanager
def _of_the_prompt() -> Iterator[None]:
    """Blame the prompt for an error about its length: a lower limit of the answer cannot fix it."""
    try:
        yield
    except InvalidInput as error:
        if error.field == "sampling.max_tokens":
            error.field = "token_ids"
        raise


async def _prepare(wanted: Wanted) -> None:
    """Build the index of tokens' bytes in a thread; it takes up to a second the first time."""
    if wanted.tells_tokens or wanted.echo:
        await asyncio.to_thread(lambda: wanted.vocabulary.index)


def _may_call(request: ChatRequest, vocabulary: PolicyTokenizer) -> bool:
    """Return True if replies must be searched for calls: tools are offered in the known form.

    Raises:
        InvalidInput: the template would silently leave out tools or their answers.
    """
    for field, is_given, word in (
        ("tools", bool(request.offered), "tools"),
        ("messages", any(message.is_of_tools for message in request.messages), "tool"),
    ):
        if is_given and not vocabulary.template_knows(word):
            raise InvalidInput("the model's chat template has no place for tools", field=field)
    return bool(request.offered) and vocabulary.template_knows(MARK)


async def _draw(
    engine: Generation, prompts: list[list[int]], sampling: SamplingParams, wanted: Wanted
) -> list[OpenAIPrompt]:
    drawn = await gather(engine.generate(prompt, sampling) for prompt in prompts)
    reads = await _read(engine, prompts, wanted)
    found = []
    for prompt, completions, read in zip(prompts, drawn, reads, strict=True):
        _check_one_version(completions, read)
        found.append(OpenAIPrompt(token_ids=prompt, completions=completions, read=read))
    return found


async def _only_read(
    engine: Generation, prompts: list[list[int]], sampling: SamplingParams, wanted: Wanted
) -> list[OpenAIPrompt]:
    """Return the prompts with their log-probabilities and empty completions."""
    found = []
    for prompt in prompts:
        read = await engine.prompt_logprobs(prompt, wanted.num_top_of_prompt or 0)
        empty = Completion(
            token_ids=(),
            logprobs=(),
            text="",
            finish_reason=FinishReason.LENGTH,
            policy=read.policy,
        )
        found.append(OpenAIPrompt(token_ids=prompt, completions=[empty] * sampling.n, read=read))
    return found


async def _read(
    engine: Generation, prompts: list[list[int]], wanted: Wanted
) -> list[PromptLogprobs | None]:
    num_top = wanted.num_top_of_prompt
    if num_top is None:
        return [None] * len(prompts)
    return list(await gather(engine.prompt_logprobs(prompt, num_top) for prompt in prompts))


def _check_one_version(completions: list[Completion], read: PromptLogprobs | None) -> None:
    """Raise NotReady if the weights changed between sampling and reading the prompt."""
    if read is not None and any(one.policy != read.policy for one in completions):
        raise NotReady(
            "the weights changed during the request", hint="ask again", retry_after_s=0.0
        )


async def _stream(
    engine: Generation,
    prompt: list[int],
    sampling: SamplingParams,
    kind: TextKind,
    request: SamplingFields,
) -> StreamingResponse:
    """Return server-sent events: texts as they are sampled, an end for each sample, then [DONE].

    An error before the first text is raised, so it still gets its own HTTP status.
    """
    (read,) = await _read(engine, [prompt], kind.wanted)
    parts = draw_parts(engine, prompt, sampling)
    first = await anext(parts)
    chunks = Chunks(request.model, prompt, kind, kind.wanted, read)
    events = _events(first, parts, chunks, request)
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(
    part: Part, parts: AsyncGenerator[Part, None], chunks: Chunks, request: SamplingFields
) -> AsyncIterator[str | bytes]:
    async with aclosing(parts):
        try:
            while isinstance(part, tuple):
                chunk = chunks.text(*part)
                if chunk is not None:
                    yield _event(chunk)
                part = await anext(parts)
            _check_one_version(part, chunks.read)
        except AssayError as error:
            error.field = request.name_of(error.field)
            # The answer has begun with status 200. OpenAI clients raise on an error event.
            yield _event(to_body(error, "inference", request_id()).model_dump(mode="json"))
            return
        for index, completion in enumerate(part):
            end = await asyncio.to_thread(chunks.end, index, completion)
            yield b"data: " + await asyncio.to_thread(_json, end) + b"\n\n"
        usage = chunks.usage(part)
        if usage is not None:
            yield _event(usage)
        yield "data: [DONE]\n\n"


async def _written(answer: Json) -> Response:
    """Return the answer's response, serialised off the event loop: it may have megabytes."""
    return Response(await asyncio.to_thread(_json, answer), media_type="application/json")


def _json(value: object) -> bytes:
    return b"".join(in_slices(value))


def _event(payload: object) -> str:
    return f"data: {json.dumps(payload)}\n\n"
