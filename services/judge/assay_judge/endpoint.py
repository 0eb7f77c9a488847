"""An OpenAI-compatible chat endpoint: what is sent, and what is read of the answer."""

import re
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic_core import to_json

from assay_judge.escalation import Step
from assay_judge.ledger import Usage
from assay_judge.reasoning import read_content
from assay_judge.usage import known_usage, num_bytes
from assay_shared.clients import ServiceClient
from assay_shared.errors import AssayError, CallerError, JudgeFault
from assay_shared.masking import mask
from assay_shared.strict_json import DuplicateKey, check_keys

#: A served model may be the asked one with a version: a date, or a number of 3 digits or more.
_VERSION = re.compile(r"[-@:](v?[0-9]{3,8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}-[0-9]{2}|latest)")
#: Statuses of a request whose content the endpoint does not take.
_OF_CONTENT = frozenset({400, 413, 422})
_MAX_SHOWN = 200
Read = TypeVar("Read")
_JSON = MappingProxyType({"content-type": "application/json"})


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Message(_Read):
    content: Any = None
    #: Where reasoning goes: vLLM and others, or OpenRouter.
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None


class _Choice(_Read):
    message: _Message
    index: Any = None
    finish_reason: Any = None


class _Response(_Read):
    choices: list[_Choice] | None = None
    model: Any = None
    usage: Any = None
    error: Any = None


_RESPONSE = TypeAdapter(_Response)


class Reply(NamedTuple):
    """A model's reply. `num_reasoned` characters were reasoning, which `text` does not hold."""

    text: str
    num_reasoned: int
    finish_reason: str | None
    usage: Usage


class RefusedContent(CallerError):
    """The endpoint works, and refuses this request: too long, or not allowed."""


class NotServed(JudgeFault):
    """The endpoint answers, but not with a completion of the model that was asked."""


class Declined(JudgeFault):
    """The model or a filter before it will not speak about this content."""


class ChatEndpoint(ServiceClient):
    """POST {base_url}/chat/completions."""

    service = "judge provider"
    is_ours = False
    max_answer_bytes = 4 * 2**20
    #: Names under which the model may be served, beside the one that is asked.
    served_as: tuple[str, ...] = ()

    async def complete(self, model: str, prompt: str, step: Step, extra: dict[str, Any]) -> Reply:
        """Ask once.

        Raises:
            AssayError: no answer, or an error status.
            RefusedContent: a status that refuses the content of this request.
            NotServed: an answer that is an error, or that another model gave.
            Declined: a refusal.
            JudgeFault: an answer without the one choice that was asked for.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": step.temperature,
            "max_tokens": step.max_tokens,
            "seed": step.seed,
        }
        if step.effort is not None:
            body["reasoning_effort"] = step.effort
        request = to_json(body | extra)
        response = await self._call("POST", "/chat/completions", request, _RESPONSE, _JSON)
        if response.error:
            raise NotServed(f"an error in the reply: {self._show(response.error)}")
        self._check_model(model, response.model)
        choice = _only(response.choices or [])
        message = choice.message
        if message.refusal:
            raise Declined(f"the model refused: {self._show(message.refusal)}")
        content = read_content(message.content)
        channel = message.reasoning_content or message.reasoning
        num_reasoned = content.num_reasoned + (len(channel) if isinstance(channel, str) else 0)
        return Reply(
            content.text,
            num_reasoned,
            None if choice.finish_reason is None else str(choice.finish_reason)[:40],
            known_usage(response.usage, prompt, num_bytes(content.text) + num_reasoned, step),
        )

    def _kind(self, status: int) -> type[AssayError]:
        return RefusedContent if status in _OF_CONTENT else super()._kind(status)

    def _decode(self, reply: TypeAdapter[Read], content: bytes) -> Read:
        found = super()._decode(reply, content)
        try:
            check_keys(content)
        except DuplicateKey as error:
            raise JudgeFault(f"in the reply, {error}") from None
        return found

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


def is_version_of(served: str, asked: str) -> bool:
    """Whether a served model's name is the asked one, with a version or without its owner."""
    served, asked = served.lower(), asked.lower()
    if "/" not in served or "/" not in asked:
        served, asked = served.rpartition("/")[2], asked.rpartition("/")[2]
    version = served[len(asked) :]
    return served.startswith(asked) and (not version or bool(_VERSION.fullmatch(version)))


def _only(choices: list[_Choice]) -> _Choice:
    """Return the choice that was asked for, which is the one with index 0."""
    if not choices:
        raise JudgeFault("a reply without choices")
    if len(choices) == 1 and choices[0].index is None:
        return choices[0]
    first = [one for one in choices if one.index == 0 and not isinstance(one.index, bool)]
    if len(first) != 1:
        raise JudgeFault(f"a reply with {len(first)} choices of index 0, not one")
    return first[0]
