"""Calibration of each judge of a chain separately: asks it and measures its labels."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from assay_judge.calibration import bias, measures, pairs, probes
from assay_judge.calibration.examples import Example, ExampleFile
from assay_judge.calibration.observations import MAX_IN_FLIGHT, Observation, observe
from assay_judge.calibration_record import Calibration, JudgeCalibration, ProbeResult
from assay_judge.chain import JudgeChain, make_chain
from assay_judge.config import JudgeConfig, OpenAIProviderConfig, deciding_settings
from assay_shared.errors import InternalFault
from assay_shared.providers.state.state import make_shared_state
from assay_shared.runs.run_folder import append_line
from assay_shared.runtime.fair_limiter import FairLimiter

_NUM_FAILURES_SHOWN = 3
_NEVER = 2**62

#: Called with a description and a number of examples; returns a function to call after each.
Watch = Callable[[str, int], Callable[[], None]]


@dataclass(frozen=True)
class CandidateJudge:
    """A provider of a chain, in a separate chain. Without a model, `model` is null."""

    name: str
    model: str | None
    settings: dict[str, JsonValue]
    chain: JudgeChain


def make_candidates(config: JudgeConfig) -> list[CandidateJudge]:
    """Return the judges of a chain, first choice first.

    They have no cache: otherwise each repeat would return the first reply again.
    """
    return [
        CandidateJudge(
            name=one.name,
            model=one.model if isinstance(one, OpenAIProviderConfig) else None,
            settings=deciding_settings(config, one.name),
            chain=_chain_of(config, one.name),
        )
        for one in config.chain
    ]


def _chain_of(config: JudgeConfig, name: str) -> JudgeChain:
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
    asked = config.model_copy(update={"chain": chain, "verify": ()})
    registry = CollectorRegistry()
    state = make_shared_state("judge", None, registry, has_cache=False)
    gate = FairLimiter(MAX_IN_FLIGHT, MAX_IN_FLIGHT)
    return make_chain(asked, state, gate, registry, alone=name)


@dataclass(frozen=True)
class Trial:
    """The settings of a calibration. Each judgement is appended to `log` at once, as a line."""

    num_repeats: int
    with_probes: bool
    log: Path
    watch: Watch

    async def repeat(
        self, candidate: CandidateJudge, examples: Sequence[Example]
    ) -> list[list[Observation]]:
        """Judge all examples `num_repeats` times; return the observations of each repeat."""
        on_done = self.watch(f"{candidate.name}: examples", self.num_repeats * len(examples))
        return [
            await self._ask(candidate, f"repeat {number}", examples, on_done)
            for number in range(1, self.num_repeats + 1)
        ]

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
            seen = await self._ask(candidate, f"probe {probe.name}", attacked, on_done)
            results.append(probes.result(probe, seen))
        return tuple(results)

    async def compare(
        self, candidate: CandidateJudge, examples: Sequence[Example]
    ) -> list[tuple[bias.Winner, bias.Winner]]:
        """Judge pairs of a right and a wrong answer in both orders; return the winners."""
        chosen = pairs.make_pairs(examples)
        if not chosen:
            return []
        on_done = self.watch(f"{candidate.name}: pairs", len(chosen))
        return await pairs.judge_pairs(candidate.chain, chosen, on_done)

    async def _ask(
        self,
        candidate: CandidateJudge,
        what: str,
        examples: Sequence[Example],
        on_done: Callable[[], None],
    ) -> list[Observation]:
        def record(seen: Observation) -> None:
            line = {
                "judge": candidate.name,
                "pass": what,
                "id": seen.example.id,
                "gold": seen.example.label,
                "label": seen.label,
                "remark": seen.remark,
            }
            append_line(self.log, json.dumps(line, ensure_ascii=False))
            on_done()

        return await observe(candidate.chain, examples, record)


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
        one = _measure(candidate, repeats, probed, winners)
        if measured:
            against = measures.against_primary(measured[0].judge, primary, repeats[0])
            one = one.model_copy(update={"against_primary": against})
        measured.append(one)
    return Calibration(
        created=datetime.now(UTC),
        dataset=file.name,
        dataset_digest=file.digest,
        num_examples=len(file.examples),
        judges=tuple(measured),
    )


def _measure(
    candidate: CandidateJudge,
    repeats: Sequence[Sequence[Observation]],
    probed: tuple[ProbeResult, ...],
    winners: Sequence[tuple[bias.Winner, bias.Winner]],
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
    )


def _template(judge: str, observations: Sequence[Observation]) -> str | None:
    """Return the hash of the prompt; None for a judge without a prompt."""
    used = sorted({one.template for one in observations if one.template is not None})
    if len(used) > 1:
        raise InternalFault(f"judge {judge!r} used several prompts: {', '.join(used)}")
    return used[0] if used else None
