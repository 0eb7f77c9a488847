"""The chain of providers: the first provider to decide a whole group wins.

A group's rewards are compared with each other, so they must share a scale: when a provider leaves
any answer of a group undecided, the next provider judges the whole group again.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from itertools import chain

from prometheus_client import CollectorRegistry, Counter

from assay_judge.checks import ReferenceChecks
from assay_judge.config import JudgeConfig, OpenAIProviderConfig, deciding_settings
from assay_judge.forms.forms import JudgePrompt, Outcome, ParsedReply, decide, prompts_for
from assay_judge.forms.templates import REASONED, Template, Templates
from assay_judge.providers.chat_model import OpenAIProvider
from assay_judge.providers.provider import JudgeCall, Provider
from assay_judge.providers.qualification import Qualification
from assay_judge.providers.reference import ReferenceProvider
from assay_judge.voting import Votes
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import AssayError, BudgetExceeded
from assay_shared.providers.state.state import SharedState
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.runtime.gather import gather
from assay_shared.telemetry.context import client, request_id
from assay_shared.types import (
    Abstention,
    Cost,
    Failure,
    FailureClass,
    JudgeAttempt,
    JudgeForm,
    Judgement,
    JudgeRequest,
    JudgeResponse,
    Label,
    Verdict,
)

_log = logging.getLogger(__name__)

#: Name of a form's built-in prompt that also asks how certain the model is: voting needs it.
_CERTAINTY = "certain"
_SYMBOLIC_TIMEOUT_S = 5.0
#: Characters of the failures of a provider in an answer's history.
_MAX_FAILED = 500


class JudgeMetrics:
    """Prometheus counters of the providers' decisions and fallbacks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter(
            "assay_judge_decisions_total",
            "Answers judged, by provider and label; `failed` if the provider gave no verdict.",
            ["provider", "label"],
            registry=registry,
        )
        self.fallbacks = Counter(
            "assay_judge_fallbacks_total",
            "Groups that a provider left to the next one.",
            ["provider"],
            registry=registry,
        )


class JudgeChain:
    """A chain of providers. Implements `assay_shared.interfaces.Judge`."""

    def __init__(
        self,
        providers: Sequence[Provider],
        config: JudgeConfig,
        verifier: ReferenceChecks,
        gate: FairLimiter,
        registry: CollectorRegistry,
        alone: str | None = None,
    ) -> None:
        """Take the providers; with `alone`, only this one judges, and the others may only vote."""
        self._providers = providers
        self._asked = [one for one in providers if alone in (None, one.name)]
        self._config = config
        self._verifier = verifier
        self._templates = Templates(config.templates)
        self._reason_first = {
            one.name
            for one in config.chain
            if isinstance(one, OpenAIProviderConfig) and one.reason_first
        }
        self._votes = Votes(config.voting, providers) if config.voting else None
        self._gate = gate
        self._metrics = JudgeMetrics(registry)

    async def open(self) -> None:
        for provider in self._providers:
            await provider.open()

    async def close(self) -> None:
        for provider in self._providers:
            await provider.close()
        self._verifier.close()

    @property
    def open_circuits(self) -> list[str]:
        """Names of the providers with an open circuit: not asked now, after repeated failures."""
        return [provider.name for provider in self._providers if provider.is_open]

    @property
    def paused_s(self) -> dict[str, float]:
        """Seconds left of each pause requested by a provider's endpoint, by provider name."""
        asked = [one for one in self._providers if isinstance(one, OpenAIProvider)]
        return {one.name: round(one.paused_s, 1) for one in asked if one.paused_s > 0}

    def prompt(self, form: JudgeForm) -> str:
        """Return the hash of the first provider's own prompt for a form."""
        return self._own_template(form, self._asked[0]).digest

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        """Judge a group; return a judgement for each answer, and the cost.

        Raises:
            InvalidInput: the request names an unknown template.
            Overloaded: too many groups are waiting already.
        """
        if request.template is not None:
            self._templates.find(request.form, request.template)  # raises if it is unknown
        async with self._gate.enter(client(), request_id()):
            known = await self._verify(request)
            open_answers = tuple(
                answer
                for answer, verdict in zip(request.answers, known, strict=True)
                if verdict is None
            )
            if not open_answers:
                return JudgeResponse(judgements=tuple(one for one in known if one is not None))
            rest = request
            if len(open_answers) < len(request.answers):
                rest = request.model_copy(update={"answers": open_answers})
            asking = JudgeCall(client(), request.run, time.monotonic() + self._config.deadline_s)
            judged = iter(await self._ask_chain(rest, asking))
        bill = asking.bill
        cost = Cost(
            judge_tokens=bill.tokens, estimated_tokens=bill.estimated_tokens, money=bill.money
        )
        return JudgeResponse(judgements=tuple(one or next(judged) for one in known), cost=cost)

    async def _verify(self, request: JudgeRequest) -> list[Verdict | None]:
        """Return each answer's verdict by checks without a model; None if they leave it open."""
        if request.form is not JudgeForm.BINARY or not self._config.verify:
            return [None] * len(request.answers)
        known = await gather(self._verifier.decide(request, answer) for answer in request.answers)
        for verdict in known:
            if verdict is not None:
                self._metrics.decisions.labels(verdict.judge, str(verdict.label)).inc()
        return known

    def _template(self, request: JudgeRequest, provider: Provider) -> Template:
        """Return the template named by the request, or else the provider's own for its form."""
        if request.template is not None:
            return self._templates.find(request.form, request.template)
        return self._own_template(request.form, provider)

    def _own_template(self, form: JudgeForm, provider: Provider) -> Template:
        votes = self._votes is not None and form is JudgeForm.BINARY
        parts = [_CERTAINTY] * votes + [REASONED] * (provider.name in self._reason_first)
        return self._templates.find(form, "_".join(parts))

    async def _ask_chain(self, request: JudgeRequest, asking: JudgeCall) -> list[Judgement]:
        tried: list[Tried] = []
        for provider in self._asked:
            if request.form not in provider.forms:
                continue
            asks = prompts_for(request, self._template(request, provider))
            found = await gather(
                self._find(provider, request, index, ask, asking) for index, ask in enumerate(asks)
            )
            tried.append((provider, asks[0].template, found))
            if all(isinstance(one, ParsedReply) for one in found):
                break
            self._metrics.fallbacks.labels(provider.name).inc()
            _log.warning("%s left answers undecided", provider.name)
        if not tried:
            return [_abstain([_JUDGELESS])] * len(request.answers)
        judge, digest, found = max(tried, key=lambda one: _num_findings(one[2]))
        template = digest if judge.has_prompt else None
        outcomes = _outcomes(request, found, [replies for _, _, replies in tried])
        return [
            Verdict(judge=judge.name, template=template, history=history, **vars(one))
            if isinstance(one, Outcome)
            else one.model_copy(update={"history": history})
            for one, history in zip(outcomes, _histories(request, tried), strict=True)
        ]

    async def _find(
        self,
        provider: Provider,
        request: JudgeRequest,
        index: int,
        ask: JudgePrompt,
        asking: JudgeCall,
    ) -> ParsedReply | Failure:
        try:
            finding = await provider.find(request, index, ask, asking)
            if self._votes is not None and request.form is JudgeForm.BINARY:
                finding = await self._votes.settle(finding, provider, request, index, ask, asking)
        except AssayError as error:
            self._metrics.decisions.labels(provider.name, "failed").inc()
            budget = isinstance(error, BudgetExceeded)
            return Failure(
                failure_class=FailureClass.BUDGET if budget else FailureClass.JUDGE,
                service="judge",
                message=f"{provider.name}: {error}",
                retryable=error.retryable,
                attempts=error.attempts,
            )
        label = finding.value if isinstance(finding.value, Label) else request.form
        self._metrics.decisions.labels(provider.name, str(label)).inc()
        return finding


#: A provider that was asked, the hash of its prompt, and its replies.
Tried = tuple[Provider, str, list[ParsedReply | Failure]]

_JUDGELESS = Failure(
    failure_class=FailureClass.JUDGE,
    service="judge",
    message="no provider of the chain judges in this form",
    retryable=False,
)


def _outcomes(
    request: JudgeRequest,
    found: list[ParsedReply | Failure],
    history: list[list[ParsedReply | Failure]],
) -> list[Outcome | Abstention]:
    """Return an outcome for each answer, or an abstention if no provider decided it.

    `found` has the replies of the provider with the most findings, `history` of all providers.
    """
    if request.form in (JudgeForm.PAIRWISE, JudgeForm.BEST_OF):
        # Each finding is about the whole group: without all of them there is no verdict.
        findings = [one for one in found if isinstance(one, ParsedReply)]
        if len(findings) == len(found):
            return [*decide(request, findings)]
        return [_abstain(chain.from_iterable(history))] * len(request.answers)
    return [
        decide(request, [one])[0]
        if isinstance(one, ParsedReply)
        else _abstain(replies[index] for replies in history)
        for index, one in enumerate(found)
    ]


def _histories(request: JudgeRequest, tried: list[Tried]) -> list[tuple[JudgeAttempt, ...]]:
    """Return for each answer all providers that were asked about it, in their order.

    In the forms that compare answers, all answers share the same requests.
    """
    if request.form in (JudgeForm.PAIRWISE, JudgeForm.BEST_OF):
        shared = tuple(_attempt(provider, replies) for provider, _, replies in tried)
        return [shared] * len(request.answers)
    return [
        tuple(_attempt(provider, [replies[index]]) for provider, _, replies in tried)
        for index in range(len(request.answers))
    ]


def _attempt(provider: Provider, replies: list[ParsedReply | Failure]) -> JudgeAttempt:
    failures = [one for one in replies if isinstance(one, Failure)]
    requests = [one.attempts if isinstance(one, Failure) else one.num_requests for one in replies]
    failed = "; ".join(dict.fromkeys(one.message for one in failures))
    return JudgeAttempt(
        judge=provider.name, num_requests=sum(requests), failed=failed[:_MAX_FAILED]
    )


def _num_findings(found: list[ParsedReply | Failure]) -> int:
    return sum(isinstance(one, ParsedReply) for one in found)


def _abstain(replies: Iterable[ParsedReply | Failure]) -> Abstention:
    """Return an abstention with the failures of all providers on an answer (or on a group)."""
    failures = [one for one in replies if isinstance(one, Failure)]
    budget = any(one.failure_class is FailureClass.BUDGET for one in failures)
    return Abstention(
        failure=Failure(
            failure_class=FailureClass.BUDGET if budget else FailureClass.JUDGE,
            service="judge",
            message="; ".join(dict.fromkeys(failure.message for failure in failures)),
            retryable=any(failure.retryable for failure in failures),
            attempts=sum(failure.attempts for failure in failures),
        )
    )


def make_chain(
    config: JudgeConfig,
    shared: SharedState,
    gate: FairLimiter,
    registry: CollectorRegistry,
    alone: str | None = None,
) -> JudgeChain:
    """Return the chain of a configuration; with `alone`, only the provider of this name judges.

    Raises:
        ConfigError: a key or a template is missing, or a provider lacks its required calibration.
    """
    providers = [
        OpenAIProvider(one, shared, config.ceiling, _qualification(config, one))
        if isinstance(one, OpenAIProviderConfig)
        else ReferenceProvider(one.name)
        for one in config.chain
    ]
    verifier = ReferenceChecks(config.verify, Symbolic(_SYMBOLIC_TIMEOUT_S))
    return JudgeChain(providers, config, verifier, gate, registry, alone)


def _qualification(config: JudgeConfig, provider: OpenAIProviderConfig) -> Qualification | None:
    if provider.requirement is None:
        return None
    settings = deciding_settings(config, provider.name)
    return Qualification(provider.requirement, provider.name, settings)
