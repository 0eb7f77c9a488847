"""Asks a model behind an OpenAI-compatible chat endpoint."""

import asyncio
import hashlib
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from assay_judge.config import OpenAIProviderConfig
from assay_judge.parse import parse_reply
from assay_shared.clients import RetryBudget, ServiceClient, Timeouts
from assay_shared.errors import ConfigError, JudgeFault
from assay_shared.types import Message, Verdict

TEMPLATE = Path(__file__).parent / "prompts" / "correctness.txt"


class ChatRequest(BaseModel):
    """What is sent."""

    model: str
    messages: list[Message]
    temperature: float
    max_tokens: int
    seed: int


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    content: str | None = None


class _Choice(BaseModel):
    model_config = ConfigDict(extra="ignore")

    message: _Reply
    finish_reason: str | None = None


class ChatResponse(BaseModel):
    """What is read of the answer."""

    model_config = ConfigDict(extra="ignore")

    choices: list[_Choice]


_RESPONSE = TypeAdapter(ChatResponse)


class ChatEndpoint(ServiceClient):
    """POST {base_url}/chat/completions."""

    service = "judge provider"

    async def complete(self, request: ChatRequest) -> _Choice:
        response = await self._call("POST", "/chat/completions", request, _RESPONSE)
        if not response.choices:
            raise JudgeFault("a reply without choices")
        return response.choices[0]


class OpenAIProvider:
    """Implements `assay_judge.provider.Provider`."""

    def __init__(self, config: OpenAIProviderConfig) -> None:
        self.name = config.name
        self._config = config
        self._template = TEMPLATE.read_text()
        self._template_hash = hashlib.sha256(self._template.encode()).hexdigest()[:12]
        self._slots = asyncio.Semaphore(config.max_concurrent)
        self._endpoint = ChatEndpoint(
            config.base_url,
            token=_key(config),
            timeouts=Timeouts(read_s=config.timeout_s, total_s=config.timeout_s),
            retry=RetryBudget(attempts=config.attempts, total_s=config.timeout_s),
        )

    async def open(self) -> None:
        await self._endpoint.__aenter__()

    async def close(self) -> None:
        await self._endpoint.__aexit__(None, None, None)

    async def decide(self, question: str, answer: str, reference: str | None) -> Verdict:
        prompt = self._template.format(
            question=question, answer=answer, reference=reference or "(none is known)"
        )
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(JudgeFault),
            stop=stop_after_attempt(self._config.attempts),
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                # The same request at temperature 0 mostly repeats a bad reply: ask differently.
                number = attempt.retry_state.attempt_number
                return await self._ask(prompt, number)
        raise AssertionError("the retry loop either returns or raises")

    async def _ask(self, prompt: str, number: int) -> Verdict:
        request = ChatRequest(
            model=self._config.model,
            messages=[Message(role="user", content=prompt)],
            temperature=self._config.temperature if number == 1 else 0.7,
            max_tokens=self._config.max_tokens * 2 ** (number - 1),
            seed=number,
        )
        async with self._slots:
            choice = await self._endpoint.complete(request)
        reply = parse_reply(choice.message.content, choice.finish_reason)
        return Verdict(
            label=reply.verdict, reason=reply.reason, judge=self.name, template=self._template_hash
        )


def _key(config: OpenAIProviderConfig) -> str | None:
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env)
    if not key:
        raise ConfigError(
            f"provider {config.name!r} needs the environment variable {config.api_key_env}"
        )
    return key
