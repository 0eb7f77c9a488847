"""Asking a chain about labelled pairs, concurrently and within a cost ceiling."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from assay_judge.bench.names import Reason
from assay_judge.bench.results import BenchResults, Result
from assay_judge.bench.sets import LabelledPair
from assay_judge.ceiling import CeilingLedger
from assay_judge.chain import JudgeChain, make_chain
from assay_judge.config import JudgeConfig, OpenAIProviderConfig
from assay_judge.forms.templates import REASONED
from assay_shared.errors import ConfigError
from assay_shared.providers.state.ledger import Spending
from assay_shared.providers.state.state import make_shared_state
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.runtime.gather import gather
from assay_shared.types import Abstention, JudgeForm, JudgeRequest

_NEVER = 2**62
_MAX_REMARK = 600


def template_of(reason: Reason) -> str:
    """Return the name of the prompt with the reason at this place; the default prompt's is ""."""
    return REASONED if reason is Reason.BEFORE else ""


class BenchLedger(CeilingLedger):
    """A ledger with a run for each judgement, and a ceiling over all of them.

    `money` is the cost of earlier starts of a resumed bench.
    """

    def __init__(self, ceiling: float | None, money: float) -> None:
        super().__init__("the bench", ceiling, money)
        self._num_requests: Counter[str] = Counter()

    async def check(self, run: str, caller: str, ceiling: float | None) -> None:
        """Implement `Ledger.check` with the bench's own ceiling, and count the request."""
        await super().check(run, caller, ceiling)
        self._num_requests[run] += 1

    async def of(self, run: str) -> tuple[int, Spending]:
        """Return the number of requests of a judgement, failed ones included, and their cost."""
        return self._num_requests[run], await self.spent(run)


def bench_config(config: JudgeConfig) -> JudgeConfig:
    """Return the chain's models alone: without checks, voting, requirements or circuit breakers.

    A model is thus asked about each pair, despite earlier failures.

    Raises:
        ConfigError: no provider of the chain compares answers.
    """
    chain = tuple(
        one.model_copy(update={"open_after": _NEVER, "requirement": None})
        for one in config.chain
        if isinstance(one, OpenAIProviderConfig)
    )
    if not chain:
        raise ConfigError(
            "no provider of the chain compares two answers",
            field="chain",
            hint="name a file with a model by --config",
        )
    # BenchLedger enforces the ceiling: each judgement is a separate run here.
    return config.model_copy(update={"chain": chain, "verify": (), "voting": None, "ceiling": None})


@dataclass
class BenchAsking:
    """A chain being asked about pairs, with its ledger and results.

    `is_stopped` is set when the ceiling is reached.
    """

    chain: JudgeChain
    ledger: BenchLedger
    results: BenchResults
    on_done: Callable[[], None]
    is_stopped: bool = field(default=False, init=False)

    async def ask_all(self, work: Sequence[tuple[LabelledPair, Reason]], concurrency: int) -> None:
        """Ask about each pair in both orders, `concurrency` pairs at a time, until the ceiling."""
        await self.chain.open()
        try:
            queue = iter(work)
            await gather(self._take_turns(queue) for _ in range(concurrency))
        finally:
            await self.chain.close()

    async def _take_turns(self, queue: Iterator[tuple[LabelledPair, Reason]]) -> None:
        for pair, reason in queue:
            if self.is_stopped:
                return
            result = await self._ask(pair, reason)
            self.results.add(result)
            if result.is_asked:
                self.on_done()
            else:
                self.is_stopped = True

    async def _ask(self, pair: LabelledPair, reason: Reason) -> Result:
        run = f"{reason}/{pair.key}"
        request = JudgeRequest(
            question=pair.question,
            answers=pair.answers,
            form=JudgeForm.PAIRWISE,
            template=template_of(reason),
            run=run,
        )
        judgement = (await self.chain.judge(request)).judgements[0]
        num_requests, spending = await self.ledger.of(run)
        asked = {
            "key": pair.key,
            "row": pair.row,
            "subset": pair.subset,
            "difficulty": pair.difficulty,
            "styles": pair.styles,
            "reason": reason,
            "better": pair.better,
            "num_requests": num_requests,
            "prompt_tokens": spending.prompt_tokens,
            "completion_tokens": spending.completion_tokens,
            "money": spending.money,
        }
        if isinstance(judgement, Abstention):
            return Result.model_validate(asked | {"failure": judgement.failure})
        said = {
            "choices": judgement.choices,
            "judge": judgement.judge,
            "template": judgement.template,
            "remark": judgement.reason[:_MAX_REMARK],
        }
        return Result.model_validate(asked | said)


def make_asked_chain(config: JudgeConfig, ledger: BenchLedger, concurrency: int) -> JudgeChain:
    """Return a chain without a cache, so that each measured verdict comes from the model."""
    registry = CollectorRegistry()
    state = make_shared_state("judge", None, registry, has_cache=False, ledger=ledger)
    return make_chain(config, state, FairLimiter(concurrency, concurrency), registry)
