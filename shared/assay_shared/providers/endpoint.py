"""The client of an OpenAI-compatible chat endpoint: its requests and checked replies."""

import re
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import TypeAdapter
from pydantic_core import to_json

from assay_shared.clients import ServiceClient
from assay_shared.errors import AssayError, CallerError, ModelFault, Unreachable
from assay_shared.providers.escalation import Attempt
from assay_shared.providers.reasoning import read_content
from assay_shared.providers.state.ledger import Usage
from assay_shared.providers.usage import known_usage, num_bytes
from assay_shared.text.masking import mask
from assay_shared.text.strict_json import DuplicateKey, read_strict_json

#: A version after a model's name: a number of 3 to 8 digits, a date, or `latest`.
_VERSION = re.compile(r"[-@:](v?[0-9]{3,8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}-[0-9]{2}|latest)")
#: HTTP statuses by which an endpoint refuses a request's content.
_OF_CONTENT = frozenset({400, 413, 422})
_MAX_SHOWN = 200
Read = TypeVar("Read")
_JSON = MappingProxyType({"content-type": "application/json"})


#: Marker passed to `_call` in place of a model; `ChatEndpoint._decode` reads the reply.
_RESPONSE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


#: A conversation: each message has a `role` and a `content`.
Messages = tuple[dict[str, str], ...]


class EndpointReply(NamedTuple):
    """A model's reply. `text` is without the reasoning, which had `num_reasoned` characters."""

    text: str
    num_reasoned: int
    finish_reason: str | None
    usage: Usage


class RefusedContent(CallerError):
    """The endpoint works, but refuses this request: too long, or not allowed."""


class NotServed(ModelFault):
    """The endpoint answered, but not with a completion of the requested model."""


class Declined(ModelFault):
    """The model, or a content filter in front of it, refused this content."""


class ChatEndpoint(ServiceClient):
    """A client of POST {base_url}/chat/completions."""

    service = "model"
    is_ours = False
    max_answer_bytes = 4 * 2**20
    #: Further names under which the model may be served.
    served_as: tuple[str, ...] = ()

    async def complete(
        self, model: str, messages: Messages, step: Attempt, extra: dict[str, Any], left_s: float
    ) -> EndpointReply:
        """Send one request, for at most `left_s`, and return its reply.

        Raises:
            AssayError: no answer, or an error status.
            RefusedContent: the status refuses the content of this request.
            NotServed: the answer holds an error, or comes from another model.
            Declined: the model refused.
            ModelFault: the answer does not have exactly one choice of index 0.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": messages,
            "temperature": step.temperature,
            "max_tokens": step.max_tokens,
            "seed": step.seed,
        }
        if step.effort is not None:
            body["reasoning_effort"] = step.effort
        request = to_json(body | extra)
        timeouts = self._timeouts
        if left_s < timeouts.total_s:
            timeouts = replace(timeouts, total_s=left_s)
        response = await self._call(
            "POST", "/chat/completions", request, _RESPONSE, _JSON, timeouts
        )
        if response.get("error"):
            raise NotServed(f"an error in the reply: {self._show(response['error'])}")
        self._check_model(model, response.get("model"))
        choice = _only(response.get("choices"))
        message = choice["message"]
        if message.get("refusal"):
            raise Declined(f"the model refused: {self._show(message['refusal'])}")
        content = read_content(message.get("content"))
        # vLLM and others use the first name for the reasoning, OpenRouter the second.
        channel = message.get("reasoning_content") or message.get("reasoning")
        finish_reason = choice.get("finish_reason")
        num_reasoned = content.num_reasoned + (len(channel) if isinstance(channel, str) else 0)
        num_written = num_bytes(content.text) + num_reasoned
        return EndpointReply(
            _carried(content.text),
            num_reasoned,
            None if finish_reason is None else _carried(str(finish_reason)[:40]),
            known_usage(response.get("usage"), text_of(messages), num_written, step),
        )

    def _kind(self, status: int) -> type[AssayError]:
        return RefusedContent if status in _OF_CONTENT else super()._kind(status)

    def _decode(self, reply: TypeAdapter[Read], content: bytes) -> Read:
        """Return a reply's JSON object, parsed once; it may begin with a byte order mark."""
        try:
            found = read_strict_json(content, takes_nan=True)
        except DuplicateKey as error:
            raise ModelFault(f"in the reply, {error}") from None
        except ValueError as error:
            # A proxy may have answered, or cut the answer off.
            raise Unreachable(
                f"an answer that is not JSON: {error}", service=self.service
            ) from None
        if not isinstance(found, dict):
            raise Unreachable("an answer that is not a JSON object", service=self.service)
        return cast(Read, found)

    def _check_model(self, asked: str, served: Any) -> None:
        if served in (None, "", asked, *self.served_as):
            return
        if not isinstance(served, str) or not is_version_of(served, asked):
            raise NotServed(
                f"asked for the model {asked!r}, but {self._show(served)} was served",
                hint="name it in served_as if it is the same",
            )

    def _show(self, value: object) -> str:
        return repr(mask(str(value)[: 10 * _MAX_SHOWN], self._token)[:_MAX_SHOWN])


def text_of(messages: Messages) -> str:
    """Return the contents of all messages as one text, to count its tokens."""
    return "".join(one["content"] for one in messages)


def is_version_of(served: str, asked: str) -> bool:
    """Return True if `served` is the model `asked`, perhaps with a version or another owner."""
    served, asked = served.lower(), asked.lower()
    if "/" not in served or "/" not in asked:
        served, asked = served.rpartition("/")[2], asked.rpartition("/")[2]
    version = served[len(asked) :]
    return served.startswith(asked) and (not version or bool(_VERSION.fullmatch(version)))


def _carried(text: str) -> str:
    """Return the text with each lone surrogate as a question mark: UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _only(choices: Any) -> dict[str, Any]:
    """Return the only choice of index 0. Raises ModelFault if it or its message is missing."""
    if not isinstance(choices, list) or not choices:
        raise ModelFault("a reply without choices")
    known = [one for one in choices if isinstance(one, dict)]
    if len(choices) == len(known) == 1 and known[0].get("index") is None:
        first = known
    else:
        first = [one for one in known if one.get("index") == 0 and one["index"] is not False]
    if len(first) != 1:
        raise ModelFault(f"a reply with {len(first)} choices of index 0, not one")
    if not isinstance(first[0].get("message"), dict):
        raise ModelFault("a reply whose choice has no message")
    return first[0]
