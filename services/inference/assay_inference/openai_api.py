"""The OpenAI-compatible routes: completions, chat completions, models; streaming included."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from assay_inference.front import Front
from assay_inference.openai_replies import (
    ChatKind,
    Chunks,
    Json,
    Prompt,
    TextKind,
    Wanted,
    card,
    chat_answer,
    text_answer,
)
from assay_inference.openai_requests import ChatRequest, CompletionRequest, SamplingFields
from assay_inference.streaming import Part, draw_parts
from assay_inference.texts import PROMPT_BYTES
from assay_inference.tool_calls import MARK
from assay_inference.vocabulary import Vocabulary
from assay_shared.access import needs
from assay_shared.context import request_id
from assay_shared.errors import AssayError, InvalidInput, NotFound, to_body
from assay_shared.json_route import up_to
from assay_shared.scopes import Scope
from assay_shared.together import together
from assay_shared.types import SamplingParams

_MAX_PROMPTS = 256
_GENERATES = needs(Scope.INFERENCE_GENERATE) | up_to(PROMPT_BYTES)


def add_routes(app: FastAPI, model_name: str) -> None:
    """Add the routes; the engine and the policy are in `app.state` once the app has started."""

    def known_engine(model: str) -> Front:
        if model != model_name:
            raise NotFound(f"the model here is {model_name!r}, not {model!r}", field="model")
        front: Front = app.state.front
        return front

    @app.get("/v1/models", openapi_extra=needs(Scope.INFERENCE_READ))
    async def models() -> Json:
        """The one model, and the weights it has now."""
        return {"object": "list", "data": [card(model_name, app.state.policy.status.policy)]}

    @app.post("/v1/completions", response_model=None, openapi_extra=_GENERATES)
    async def completions(request: CompletionRequest) -> Json | StreamingResponse:
        """Complete texts or token ids as they stand."""
        engine = known_engine(request.model)
        sampling = request.sampling(request.max_tokens)
        wanted = _wanted(request, engine.vocabulary, logprobs=request.logprobs is not None)
        _check_length(request, engine.vocabulary)
        prompts = await _encoded(engine, request.prompts(), sampling.n)
        if not all(prompts):
            raise InvalidInput(f"give 1 to {_MAX_PROMPTS} prompts, none empty", field="prompt")
        if request.stream:
            if len(prompts) > 1:
                raise InvalidInput("streaming takes one prompt", field="prompt")
            chunks = Chunks(model_name, prompts[0], TextKind(wanted), wanted)
            return await _stream(engine, prompts[0], sampling, chunks)
        return text_answer(model_name, await _draw(engine, prompts, sampling), wanted)

    @app.post("/v1/chat/completions", response_model=None, openapi_extra=_GENERATES)
    async def chat(request: ChatRequest) -> Json | StreamingResponse:
        """Answer a conversation through the model's chat template."""
        engine = known_engine(request.model)
        sampling = request.sampling(request.limit, request.response_format.structure())
        calls = _may_call(request, engine.vocabulary)
        wanted = _wanted(request, engine.vocabulary, logprobs=request.logprobs, calls=calls)
        turns = [message.turn() for message in request.messages]
        prompt = await engine.encode_turns(turns, request.offered, sampling.n)
        with _in_openais_words():
            if request.stream:
                chunks = Chunks(model_name, prompt, ChatKind(wanted), wanted)
                return await _stream(engine, prompt, sampling, chunks)
            (drawn,) = await _draw(engine, [prompt], sampling)
        return chat_answer(model_name, drawn, wanted)


def _check_length(request: CompletionRequest, vocabulary: Vocabulary) -> None:
    """Refuse what can never fit, by the length of its lists alone."""
    prompt = request.prompt
    if isinstance(prompt, str) or not prompt:
        return
    is_ids = isinstance(prompt[0], int)
    if is_ids and len(prompt) > vocabulary.max_length:
        raise InvalidInput(
            f"a prompt of {len(prompt)} tokens leaves no room in a context of "
            f"{vocabulary.max_length}",
            field="prompt",
        )
    if not is_ids and len(prompt) > _MAX_PROMPTS:
        raise InvalidInput(f"give 1 to {_MAX_PROMPTS} prompts, none empty", field="prompt")


async def _encoded(
    engine: Front, prompts: list[str | list[int]], num_samples: int
) -> list[list[int]]:
    """The ids of each prompt; all texts are tokenised together."""
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    ids = iter(await engine.encode(texts, len(prompts) * num_samples) if texts else ())
    return [next(ids) if isinstance(prompt, str) else prompt for prompt in prompts]


@contextmanager
def _in_openais_words() -> Iterator[None]:
    """Name the field as the caller knows it."""
    try:
        yield
    except InvalidInput as error:
        if error.field == "sampling.structure":
            error.field = "response_format"
        raise


def _wanted(
    request: SamplingFields, vocabulary: Vocabulary, *, logprobs: bool, calls: bool = False
) -> Wanted:
    return Wanted(
        vocabulary=vocabulary,
        logprobs=logprobs,
        token_ids=request.return_token_ids,
        calls=calls,
        usage=request.includes_usage,
    )


def _may_call(request: ChatRequest, vocabulary: Vocabulary) -> bool:
    """Whether calls are to be looked for in the replies: tools are offered in the known form.

    Raises:
        InvalidInput: the template would leave tools or their answers out without a word.
    """
    for field, is_given, word in (
        ("tools", bool(request.offered), "tools"),
        ("messages", any(message.is_of_tools for message in request.messages), "tool"),
    ):
        if is_given and not vocabulary.template_knows(word):
            raise InvalidInput("the model's chat template has no place for tools", field=field)
    return bool(request.offered) and vocabulary.template_knows(MARK)


async def _draw(engine: Front, prompts: list[list[int]], sampling: SamplingParams) -> list[Prompt]:
    drawn = await together(engine.generate(prompt, sampling) for prompt in prompts)
    return [
        Prompt(token_ids=prompt, completions=completions)
        for prompt, completions in zip(prompts, drawn, strict=True)
    ]


async def _stream(
    engine: Front, prompt: list[int], sampling: SamplingParams, chunks: Chunks
) -> StreamingResponse:
    """Server-sent events: texts as they are drawn, an end for each sample, then [DONE].

    What fails before the first text is raised, so that it still gets its own HTTP status.
    """
    parts = draw_parts(engine, prompt, sampling)
    first = await anext(parts)
    return StreamingResponse(_events(first, parts, chunks), media_type="text/event-stream")


async def _events(
    part: Part, parts: AsyncGenerator[Part, None], chunks: Chunks
) -> AsyncIterator[str]:
    async with aclosing(parts):
        try:
            while isinstance(part, tuple):
                chunk = chunks.text(*part)
                if chunk is not None:
                    yield _event(chunk)
                part = await anext(parts)
        except AssayError as error:
            # The answer has begun with 200: an error event is what OpenAI clients raise from.
            yield _event(to_body(error, "inference", request_id()).model_dump(mode="json"))
            return
        for index, completion in enumerate(part):
            yield _event(chunks.end(index, completion))
        usage = chunks.usage(part)
        if usage is not None:
            yield _event(usage)
        yield "data: [DONE]\n\n"


def _event(payload: object) -> str:
    return f"data: {json.dumps(payload)}\n\n"
