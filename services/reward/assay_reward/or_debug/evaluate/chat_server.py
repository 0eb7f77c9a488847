"""A policy behind a server of the OpenAI form: vLLM, SGLang, llama.cpp, or a provider's own."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_json

from assay_reward.or_debug.evaluate.chat_replies import read_reply, refuse_without_answer
from assay_reward.or_debug.evaluate.policy import PolicyReply
from assay_shared.clients import ServiceClient
from assay_shared.errors import InvalidInput
from assay_shared.types import Message, SamplingParams, Task

_ANY: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
#: A reply of the policy: a fault in its place is asked for again.
_TURN: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_JSON = MappingProxyType({"content-type": "application/json"})
_Answer = TypeVar("_Answer")
#: Words of servers that refuse a conversation longer than the context.
_TOO_LONG = ("context", "too long", "max_model_len", "too many tokens")
_MAX_SEED = 2**31


class ChatServer(ServiceClient):
    """A client of /chat/completions; `base_url` ends with /v1 or the like."""

    service = "model server"
    is_ours = False
    max_answer_bytes = 16 * 2**20

    async def chat(self, body: dict[str, JsonValue]) -> dict[str, Any]:
        """Return a completion that has an answer of the policy.

        Raises:
            InvalidInput: the server refuses the request.
            Unreachable: no completion ended normally within the retries.
        """
        return await self._call("POST", "/chat/completions", to_json(body), _TURN, _JSON)

    async def only_model(self) -> str:
        """Return the name of the served model.

        Raises:
            InvalidInput: the server has several, or none.
        """
        found = await self._call("GET", "/models", None, _ANY)
        listed = found.get("data")
        models = listed if isinstance(listed, list) else []
        names = [str(one.get("id")) for one in models if isinstance(one, dict)]
        if len(names) != 1:
            shown = ", ".join(names[:10]) or "none"
            raise InvalidInput(f"which of the server's models? It has {shown}", field="--model")
        return names[0]

    def _decode(self, reply: TypeAdapter[_Answer], content: bytes) -> _Answer:
        found = super()._decode(reply, content)
        if reply is _TURN and isinstance(found, dict):
            refuse_without_answer(found)
        return found


@dataclass(frozen=True)
class ChatPolicy:
    """A model of a server; every reply has the whole conversation in its request."""

    name: str
    server: ChatServer
    model: str
    sampling: SamplingParams

    def player(self, task: Task, sample: int) -> "ChatPlayer":
        return ChatPlayer(self, sample)


class ChatPlayer:
    """A conversation with a server's model."""

    def __init__(self, policy: ChatPolicy, sample: int) -> None:
        self._policy = policy
        self._sample = sample
        self._messages: tuple[Message, ...] = ()

    async def reply(self, observation: str) -> PolicyReply | None:
        """Return the sampled reply, or None if the conversation exceeds the model's context.

        Raises:
            AssayError: the server gives no usable reply, or the prompt alone exceeds the context.
        """
        asked = (*self._messages, Message(role="user", content=observation))
        try:
            completion = await self._policy.server.chat(self._body(asked))
        except InvalidInput as error:
            if not self._messages or not any(one in str(error).lower() for one in _TOO_LONG):
                raise
            return None
        reply = read_reply(completion, self._policy.sampling.max_tokens)
        self._messages = (*asked, Message(role="assistant", content=reply.text))
        return reply

    def _body(self, messages: tuple[Message, ...]) -> dict[str, JsonValue]:
        sampling = self._policy.sampling
        turns: list[JsonValue] = [one.model_dump() for one in messages]
        body: dict[str, JsonValue] = {
            "model": self._policy.model,
            "messages": turns,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.seed is not None:
            seed = sampling.seed + 1_000_003 * self._sample + len(messages)
            body["seed"] = seed % _MAX_SEED
        return body
