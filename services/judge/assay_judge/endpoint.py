"""An OpenAI-compatible chat endpoint: what is sent, and what is read of the answer."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from assay_judge.escalation import Step
from assay_judge.ledger import Usage
from assay_shared.clients import ServiceClient
from assay_shared.errors import JudgeFault


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Message(_Read):
    content: str | None = None
    #: Where reasoning goes: vLLM and others, or OpenRouter.
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(_Read):
    message: _Message
    finish_reason: str | None = None


class _Usage(_Read):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)


class _Response(_Read):
    choices: list[_Choice] = []
    usage: _Usage | None = None


_RESPONSE = TypeAdapter(_Response)


class Reply(BaseModel):
    """A model's reply. `num_reasoned` characters went to its reasoning channel."""

    text: str
    num_reasoned: int
    finish_reason: str | None
    usage: Usage


class _Request(BaseModel):
    model_config = ConfigDict(extra="allow")


class ChatEndpoint(ServiceClient):
    """POST {base_url}/chat/completions."""

    service = "judge provider"
    is_ours = False

    async def complete(self, model: str, prompt: str, step: Step, extra: dict[str, Any]) -> Reply:
        """Ask once.

        Raises:
            AssayError: no answer, or an error status.
            JudgeFault: an answer without a choice, or a refusal.
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
        request = _Request.model_validate(body | extra)
        response = await self._call("POST", "/chat/completions", request, _RESPONSE)
        if not response.choices:
            raise JudgeFault("a reply without choices")
        choice = response.choices[0]
        if choice.message.refusal:
            raise JudgeFault(f"the model refused: {choice.message.refusal[:200]!r}")
        usage = response.usage or _Usage()
        return Reply(
            text=(choice.message.content or "").strip(),
            num_reasoned=len(choice.message.reasoning_content or choice.message.reasoning or ""),
            finish_reason=choice.finish_reason,
            usage=Usage(
                prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens
            ),
        )
