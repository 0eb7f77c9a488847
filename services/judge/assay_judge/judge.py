"""The chain: the first provider that decides a whole group has decided it.

A group's rewards are compared with each other, so they must come from one scale: when a provider
leaves any answer of a group undecided, the next one judges all of them again.
"""

import logging

from prometheus_client import CollectorRegistry, Counter

from assay_judge.config import JudgeConfig, OpenAIProviderConfig
from assay_judge.provider import Provider
from assay_judge.provider_openai import OpenAIProvider
from assay_judge.provider_reference import ReferenceProvider
from assay_shared.admission import Gate
from assay_shared.errors import AssayError
from assay_shared.together import together
from assay_shared.types import (
    Abstention,
    Failure,
    FailureClass,
    JudgeRequest,
    JudgeResponse,
    Verdict,
)

_log = logging.getLogger(__name__)


class JudgeMetrics:
    """What the providers did."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter(
            "assay_judge_decisions_total",
            "Answers judged, by provider and label; `failed` where it gave none.",
            ["provider", "label"],
            registry=registry,
        )


class JudgeChain:
    """Implements `assay_shared.interfaces.Judge`."""

    def __init__(self, providers: list[Provider], gate: Gate, registry: CollectorRegistry) -> None:
        self._providers = providers
        self._gate = gate
        self._metrics = JudgeMetrics(registry)

    async def open(self) -> None:
        for provider in self._providers:
            await provider.open()

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        """Decide a group.

        Raises:
            Overloaded: too many groups wait already.
        """
        async with self._gate.enter():
            return await self._judge(request)

    async def _judge(self, request: JudgeRequest) -> JudgeResponse:
        history: list[list[Verdict | Failure]] = []
        for provider in self._providers:
            decided = await together(
                self._decide(provider, request, answer) for answer in request.answers
            )
            history.append(decided)
            if all(isinstance(one, Verdict) for one in decided):
                break
            _log.warning("%s left answers undecided", provider.name)
        best = max(history, key=_num_verdicts)
        return JudgeResponse(
            judgements=tuple(
                one if isinstance(one, Verdict) else _abstain([h[i] for h in history])
                for i, one in enumerate(best)
            )
        )

    async def _decide(
        self, provider: Provider, request: JudgeRequest, answer: str
    ) -> Verdict | Failure:
        try:
            verdict = await provider.decide(request.question, answer, request.reference)
        except AssayError as error:
            self._metrics.decisions.labels(provider.name, "failed").inc()
            return Failure(
                failure_class=FailureClass.JUDGE,
                service="judge",
                message=f"{provider.name}: {error}",
                retryable=error.retryable,
                attempts=error.attempts,
            )
        self._metrics.decisions.labels(provider.name, verdict.label).inc()
        return verdict


def _num_verdicts(decided: list[Verdict | Failure]) -> int:
    return sum(isinstance(one, Verdict) for one in decided)


def _abstain(history: list[Verdict | Failure]) -> Abstention:
    """One answer's story: why each provider that failed on it did."""
    failures = [one for one in history if isinstance(one, Failure)]
    return Abstention(
        failure=Failure(
            failure_class=FailureClass.JUDGE,
            service="judge",
            message="; ".join(failure.message for failure in failures),
            retryable=any(failure.retryable for failure in failures),
            attempts=sum(failure.attempts for failure in failures),
        )
    )


def make_providers(config: JudgeConfig) -> list[Provider]:
    """The chain's providers, in order."""
    return [
        OpenAIProvider(one)
        if isinstance(one, OpenAIProviderConfig)
        else ReferenceProvider(one.name)
        for one in config.chain
    ]
