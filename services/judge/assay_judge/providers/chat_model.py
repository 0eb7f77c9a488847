"""A judge behind an OpenAI-compatible chat endpoint, qualified by its calibration."""

from dataclasses import dataclass, replace
from typing import Any

from assay_judge.config import OpenAIProviderConfig
from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.providers.parse import read_reply, read_text
from assay_judge.providers.provider import JudgeCall
from assay_judge.providers.qualification import Qualification
from assay_shared.providers.client import ModelClient, ModelQuestion
from assay_shared.providers.endpoint import EndpointReply
from assay_shared.providers.escalation import Attempt
from assay_shared.providers.state.cache import cache_key
from assay_shared.providers.state.state import SharedState
from assay_shared.types import JudgeForm, JudgeRequest

#: Distance between the seeds of two votes: more than one vote's retries use.
_SEEDS_A_VOTE = 1000


@dataclass(frozen=True)
class VerdictReader:
    """The reader of replies to a prompt. Implements `assay_shared.providers.client.ReplyReader`."""

    ask: JudgePrompt

    def read(self, reply: EndpointReply) -> ParsedReply:
        return read_reply(reply, self.ask)

    def kept(self, reply: EndpointReply) -> str:
        return reply.text

    def restore(self, kept: str) -> ParsedReply:
        return read_text(kept, self.ask)


class OpenAIProvider(ModelClient[ParsedReply]):
    """A model behind a chat endpoint. Implements `assay_judge.providers.provider.Provider`."""

    forms = frozenset(JudgeForm)
    has_prompt = True

    def __init__(
        self,
        config: OpenAIProviderConfig,
        shared: SharedState,
        ceiling: float | None,
        qualification: Qualification | None,
    ) -> None:
        super().__init__(config, shared, ceiling)
        self._step = Attempt(
            config.max_tokens, config.temperature, config.seed, config.reasoning_effort
        )
        self._is_structured = config.structured
        self._qualification = qualification

    async def find(
        self, request: JudgeRequest, index: int, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        """Implement `Provider.find`; a prompt in flight or in the cache is not sent again."""
        if self._qualification is not None:
            self._qualification.check(ask.template, request.domain or None)
        step = self._first_step(asking.vote)
        key = cache_key(
            model=self._config.model,
            revision=self._config.revision,
            template=ask.template,
            sampling={
                "base_url": self._config.base_url,
                "step": str(step),
                "structured": self._is_structured,
            },
            inputs={"prompt": ask.prompt},
        )
        messages = ({"role": "user", "content": ask.prompt},)
        question = ModelQuestion(key, messages, step, VerdictReader(ask), self._extra(ask))
        answer = await self.ask(question, asking)
        return replace(answer.finding, num_requests=answer.num_requests)

    def _first_step(self, vote: int) -> Attempt:
        return self._step.reseeded(_SEEDS_A_VOTE * vote) if vote else self._step

    def _extra(self, ask: JudgePrompt) -> dict[str, Any]:
        if not self._is_structured:
            return {}
        schema = {"name": "reply", "strict": True, "schema": ask.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
