"""Calibration of each judge of a chain separately: asks it and measures its labels."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from assay_judge.calibration import bias, measures, pairs, probes
from assay_judge.calibration.examples import Example, ExampleFile
from assay_judge.calibration.log import PAIRS, JudgementLine, JudgementLog, Winner
from assay_judge.calibration.observations import MAX_IN_FLIGHT, Observation, ask_about
from assay_judge.calibration_record import Calibration, Expense, JudgeCalibration, ProbeResult
from assay_judge.ceiling import CeilingLedger
from assay_judge.chain import JudgeChain, make_chain
from assay_judge.config import (
    JudgeConfig,
    OpenAIProviderConfig,
    ProviderConfig,
    deciding_settings,
)
from assay_shared.errors import BudgetExceeded, InternalFault
from assay_shared.providers.state.state import make_shared_state
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.runtime.gather import gather
from assay_shared.types import FailureClass, JudgeForm

_NUM_FAILURES_SHOWN = 3
_NEVER = 2**62

#: Called with a description and a number of examples; returns a function to call after each.
Watch = Callable[[str, int], Callable[[], None]]
Ask = Callable[[], Awaitable[JudgementLine]]


@dataclass(frozen=True)
class CandidateJudge:
    """A provider of a chain, in a separate chain. Without a model, `model` is null.

    `concurrency` is the number of judgements in flight at a time: these may exceed a ceiling.
    """

    name: str
    model: str | None
    concurrency: int
    settings: dict[str, JsonValue]
    chain: JudgeChain

    @property
    def plan(self) -> dict[str, JsonValue]:
        """The settings and prompts; judgements of other ones cannot be mixed with these."""
        forms = (JudgeForm.BINARY, JudgeForm.PAIRWISE)
        return {**self.settings, "prompts": {one: self.chain.prompt(one) for one in forms}}


def make_candidates(config: JudgeConfig, ledger: CeilingLedger) -> list[CandidateJudge]:
    """Return the judges of a chain, first choice first, with a ledger for all.

    They have no cache: otherwise each repeat would return the first reply again.
    """
    return [
        CandidateJudge(
            name=one.name,
            model=one.model if isinstance(one, OpenAIProviderConfig) else None,
            concurrency=_concurrency(one),
            settings=deciding_settings(config, one.name),
            chain=_chain_of(config, one.name, ledger),
        )
        for one in config.chain
    ]


def _concurrency(provider: ProviderConfig) -> int:
    if not isinstance(provider, OpenAIProviderConfig):
        return MAX_IN_FLIGHT
    return min(provider.limits.concurrency or MAX_IN_FLIGHT, MAX_IN_FLIGHT)


def _chain_of(config: JudgeConfig, name: str, ledger: CeilingLedger) -> JudgeChain:
    """Return a chain with this judge alone: with its voting, without checks, cache or breakers.

    The judge is thus asked about every example, despite earlier failures. The other providers are
    in the chain to vote, if it has a panel.
    """
    chain = tuple(
        one.model_copy(update={"open_after": _NEVER, "requirement": None})
        if isinstance(one, OpenAIProviderConfig)
        else one
        for one in config.chain
    )
    asked = config.model_copy(update={"chain": chain, "verify": (), "ceiling": None})
    registry = CollectorRegistry()
    state = make_shared_state("judge", None, registry, has_cache=False, ledger=ledger)
    gate = FairLimiter(MAX_IN_FLIGHT, MAX_IN_FLIGHT)
    return make_chain(asked, state, gate, registry, alone=name)


@dataclass(frozen=True)
class Trial:
    """The settings of a calibration, its log and its ledger.

    Each judgement is appended to the log at once. Known verdicts of the log are not asked for
    again. `on_failure` is called with a judge and each of its failures. `verify` has the chain's
    checks without a model: they are not measured.
    """

    num_repeats: int
    with_probes: bool
    log: JudgementLog
    ledger: CeilingLedger
    watch: Watch
    on_failure: Callable[[str, str], None]
    verify: tuple[str, ...]

    async def repeat(
        self, candidate: CandidateJudge, examples: Sequence[Example]
    ) -> list[list[Observation]]:
        """Judge all examples `num_repeats` times; return the observations of each repeat.

        A judge that gave no verdict at all in the first repeat is not asked again.
        """
        on_done = self.watch(f"{candidate.name}: examples", self.num_repeats * len(examples))
        repeats: list[list[Observation]] = []
        for number in range(1, self.num_repeats + 1):
            repeats.append(await self._observe(candidate, f"repeat {number}", examples, on_done))
            if all(one.label is None for one in repeats[0]):
                break
        return repeats

    async def probe(
        self, candidate: CandidateJudge, observations: Sequence[Observation]
    ) -> tuple[ProbeResult, ...]:
        """Attack the wrong answers judged INCORRECT; return a result for each probe.

        Empty without such answers, or if probes are off.
        """
        chosen = probes.choose(observations)
        if not self.with_probes or not chosen:
            return ()
        on_done = self.watch(f"{candidate.name}: probes", len(probes.PROBES) * len(chosen))
        results = []
        for probe in probes.PROBES:
            attacked = [probe.attack(example) for example in chosen]
            seen = await self._observe(candidate, f"probe {probe.name}", attacked, on_done)
            results.append(probes.result(probe, seen))
        return tuple(results)

    async def compare(
        self, candidate: CandidateJudge, examples: Sequence[Example]
    ) -> list[tuple[Winner, Winner]]:
        """Judge pairs of a right and a wrong answer in both orders; return the winners."""
        chosen = pairs.make_pairs(examples)
        if not chosen:
            return []
        on_done = self.watch(f"{candidate.name}: pairs", len(chosen))
        work = {
            pairs.name_of(pair): partial(
                pairs.ask_about_pair, candidate.chain, candidate.name, pair
            )
            for pair in chosen
        }
        lines = await self._ask(candidate, PAIRS, work, on_done)
        return [line.winners for line in lines if line.winners is not None]

    async def _observe(
        self,
        candidate: CandidateJudge,
        what: str,
        examples: Sequence[Example],
        on_done: Callable[[], None],
    ) -> list[Observation]:
        work = {
            example.id: partial(ask_about, candidate.chain, candidate.name, what, example)
            for example in examples
        }
        lines = await self._ask(candidate, what, work, on_done)
        return [
            Observation(example, line.label, line.remark, line.template)
            for example, line in zip(examples, lines, strict=True)
        ]

    async def _ask(
        self,
        candidate: CandidateJudge,
        what: str,
        work: Mapping[str, Ask],
        on_done: Callable[[], None],
    ) -> list[JudgementLine]:
        """Return the line of each judgement of a pass: a known verdict, or a new line.

        Raises:
            BudgetExceeded: the ceiling is reached. Judgements in flight are finished before.
        """
        room = asyncio.Semaphore(candidate.concurrency)

        async def one(name: str, ask: Ask) -> JudgementLine | None:
            line = self.log.find(candidate.name, what, name)
            if line is None:
                async with room:
                    line = None if self.ledger.is_reached else await ask()
                if line is None or not self._record(candidate, line):
                    return None
            on_done()
            return line

        found = await gather(one(*item) for item in work.items())
        lines = [line for line in found if line is not None]
        if len(lines) < len(found):
            raise BudgetExceeded(
                f"{await self.ledger.told()}, with {len(lines)} of {len(found)} judgements of "
                f"judge {candidate.name!r} in pass {what!r}"
            )
        return lines

    def _record(self, candidate: CandidateJudge, line: JudgementLine) -> bool:
        """Append a line to the log; return False for a judgement beyond the ceiling.

        A judgement that was cut off by the ceiling may have cost money already.
        """
        is_beyond = line.failure is FailureClass.BUDGET
        if not is_beyond or line.money > 0:
            is_free = candidate.model is None  # its tries are not requests
            self.log.add(line.model_copy(update={"num_requests": 0}) if is_free else line)
        if line.failure is not None and not is_beyond:
            self.on_failure(line.judge, line.remark)
        return not is_beyond


async def calibrate(
    candidates: Sequence[CandidateJudge], file: ExampleFile, trial: Trial
) -> Calibration:
    """Measure all candidates in turn, on the same examples."""
    measured: list[JudgeCalibration] = []
    primary: list[Observation] = []
    for candidate in candidates:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(candidate.chain.close)
            await candidate.chain.open()
            repeats = await trial.repeat(candidate, file.examples)
            probed = await trial.probe(candidate, repeats[0])
            winners = await trial.compare(candidate, file.examples)
        primary = primary or repeats[0]
        one = _measure(candidate, repeats, probed, winners, trial.log.cost(candidate.name))
        if measured:
            against = measures.against_primary(measured[0].judge, primary, repeats[0])
            one = one.model_copy(update={"against_primary": against})
        measured.append(one)
    return Calibration(
        created=datetime.now(UTC),
        dataset=file.name,
        dataset_digest=file.digest,
        num_examples=len(file.examples),
        num_repeated=len(file.repeated),
        verify=trial.verify,
        judges=tuple(measured),
    )


def _measure(
    candidate: CandidateJudge,
    repeats: Sequence[Sequence[Observation]],
    probed: tuple[ProbeResult, ...],
    winners: Sequence[tuple[Winner, Winner]],
    cost: Expense,
) -> JudgeCalibration:
    """Return a judge's measurements.

    All but stability uses the first repeat only: otherwise an example would count several times.
    """
    first = repeats[0]
    failures = Counter(one.remark for one in first if one.label is None)
    return JudgeCalibration(
        judge=candidate.name,
        model=candidate.model,
        settings=candidate.settings,
        template=_template(candidate.name, first),
        overall=measures.agreement(first),
        domains=measures.by_domain(first),
        stability=measures.stability(repeats),
        against_primary=None,
        length_bias=bias.length_bias(first),
        position_bias=bias.position_bias(winners),
        self_preference=bias.self_preference(candidate.model, first),
        probes=probed,
        failures=dict(failures.most_common(_NUM_FAILURES_SHOWN)),
        cost=cost,
    )


def _template(judge: str, observations: Sequence[Observation]) -> str | None:
    """Return the hash of the prompt; None for a judge without a prompt."""
    used = sorted({one.template for one in observations if one.template is not None})
    if len(used) > 1:
        raise InternalFault(f"judge {judge!r} used several prompts: {', '.join(used)}")
    return used[0] if used else None
