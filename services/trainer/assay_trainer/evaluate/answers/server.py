"""A running OpenAI-compatible server as a source of answers.

Each sample has a separate request, so its number of tokens is known. Token ids are not: the ids
of an answer are placeholders that remember its conversation, so episodes are sent as messages.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_json

from assay_shared.clients import ServiceClient
from assay_shared.errors import AssayError, InvalidInput, to_failure
from assay_shared.runtime.gather import gather
from assay_shared.types import (
    Completion,
    Failure,
    FailureClass,
    FinishReason,
    GenerateRequest,
    GenerateResponse,
    Message,
    SamplingParams,
)
from assay_trainer.evaluate.answers.generators import UNKNOWN
from assay_trainer.evaluate.answers.replies import ReadReply, read_answer, refuse_fault
from assay_trainer.rollouts.worker import PartialResponse

_REPLY: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
#: Of replies that must have an answer: a fault in its place is asked for again.
_ANSWER: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_JSON = MappingProxyType({"content-type": "application/json"})
Reply = TypeVar("Reply")
#: In the place of a lost sample.
_NO_ANSWER = Completion(
    token_ids=(), logprobs=(), text="", finish_reason=FinishReason.STOP, policy=UNKNOWN
)
#: In the place of a sample that is not asked for.
_NOT_ASKED = Failure(
    failure_class=FailureClass.INTERNAL,
    service="model server",
    message="it was not asked for: it has a score already",
    retryable=False,
)
_SEED_OF_SAMPLE = 32_452_843
_MAX_SEED = 2**31


class OpenAIServer(ServiceClient):
    """A client of chat and text completions of a server; `base_url` ends with /v1 or the like."""

    service = "model server"
    is_ours = False
    max_answer_bytes = 16 * 2**20

    async def complete(self, path: str, body: dict[str, JsonValue]) -> dict[str, Any]:
        """Return the server's reply.

        Raises:
            InvalidInput: the server refuses the request.
            Unreachable: the reply has no answer of the policy, each time within the retries.
        """
        return await self._call("POST", path, to_json(body), _ANSWER, _JSON)

    def _decode(self, reply: TypeAdapter[Reply], content: bytes) -> Reply:
        found = super()._decode(reply, content)
        if reply is _ANSWER and isinstance(found, dict):
            refuse_fault(found)
        return found

    async def models(self) -> list[str]:
        """Return the names of the served models."""
        found = await self._call("GET", "/models", None, _REPLY)
        return [str(one.get("id")) for one in found.get("data", []) if isinstance(one, dict)]


@dataclass
class ServerGenerator:
    """Samples from a server's model: chats through its template, raw prompts as they are."""

    server: OpenAIServer
    model: str
    #: Arguments of the chat template, which vLLM and SGLang take by this name.
    template: dict[str, JsonValue]
    #: Indices of the samples of a first request that are not asked for.
    known: Collection[int] = ()
    _conversations: dict[int, tuple[Message, ...]] = field(default_factory=dict)
    _handles: "count[int]" = field(default_factory=lambda: count(1))

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Return `n` samples, each by a request with its own seed; some may be lost.

        Raises:
            InvalidInput: ids are asked for that the server never gave, or it refuses all requests
                for one reason.
            InfrastructureError: no request has a usable answer in the retry budget, all for one
                reason.
        """
        messages = request.messages
        prompt_ids: tuple[int, ...] = ()
        if request.token_ids is not None:
            prompt_ids = request.token_ids
            messages = (*self._conversation(prompt_ids), *request.then)
        sampling = request.sampling

        async def sample(index: int) -> Completion | AssayError:
            try:
                return await self._sample(request.prompt, messages, sampling, index)
            except AssayError as error:
                return error

        known = self.known if request.token_ids is None else ()
        asked = [index for index in range(sampling.n) if index not in known]
        found = dict(zip(asked, await gather(map(sample, asked)), strict=True))
        errors = [one for one in found.values() if isinstance(one, AssayError)]
        if len(errors) == len(found) and len({one.message for one in errors}) == 1:
            raise errors[0]
        return PartialResponse(
            prompt_token_ids=prompt_ids,
            completions=tuple(
                one if isinstance(one := found.get(index), Completion) else _NO_ANSWER
                for index in range(sampling.n)
            ),
            lost=dict.fromkeys(known, _NOT_ASKED)
            | {
                index: to_failure(one, self.server.service)
                for index, one in found.items()
                if isinstance(one, AssayError)
            },
        )

    def _conversation(self, token_ids: tuple[int, ...]) -> tuple[Message, ...]:
        handle = next((one for one in reversed(token_ids) if one), 0)
        if handle not in self._conversations:
            raise InvalidInput("a server takes no token ids but those it gave", field="token_ids")
        return self._conversations[handle]

    async def _sample(
        self,
        prompt: str | None,
        messages: tuple[Message, ...] | None,
        sampling: SamplingParams,
        index: int,
    ) -> Completion:
        body = self._body(sampling, index)
        if messages is None:
            reply = await self.server.complete("/completions", body | {"prompt": prompt})
        else:
            turns: list[JsonValue] = [one.model_dump() for one in messages]
            chat = body | {"messages": turns}
            if self.template:
                chat["chat_template_kwargs"] = self.template
            reply = await self.server.complete("/chat/completions", chat)
        return self._completion(read_answer(reply, sampling.max_tokens), messages)

    def _body(self, sampling: SamplingParams, index: int) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {
            "model": self.model,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "n": 1,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.seed is not None:
            body["seed"] = (sampling.seed + _SEED_OF_SAMPLE * index) % _MAX_SEED
        return body

    def _completion(self, answer: ReadReply, messages: tuple[Message, ...] | None) -> Completion:
        handle, num_tokens = next(self._handles), answer.num_tokens
        if messages is not None:
            num_tokens = max(1, num_tokens)  # of an empty reply too, the handle is needed
            said = Message(role="assistant", content=answer.text)
            self._conversations[handle] = (*messages, said)
        return Completion(
            token_ids=((handle,) + (0,) * (num_tokens - 1)) if num_tokens else (),
            logprobs=(0.0,) * num_tokens,
            text=answer.text,
            finish_reason=FinishReason.LENGTH if answer.is_cut else FinishReason.STOP,
            policy=UNKNOWN,
        )
