"""Services and processes used by verifiers and environments, and the cost of their use."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.own.instruments import Own
from assay_reward.workflows.playing.player import WorkflowPlayer
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.interfaces import Judge, Sandbox
from assay_shared.runtime.workers import Workers
from assay_shared.types import Cost, Reward, Scored, ScoreRequest, ScoreResponse, Task


@dataclass(frozen=True)
class InnerScore:
    """Rewards by a task's own rubric, with the ends of the rubric's scale."""

    response: ScoreResponse
    lowest: float
    highest: float

    def share(self, reward: Reward) -> float:
        """Return the reward's place on the scale, in [0, 1]; 0 without a reward."""
        if not isinstance(reward, Scored):
            return 0.0
        return (reward.value - self.lowest) / (self.highest - self.lowest)


class InnerScoring:
    """Scores the answer inside an answer: of a workflow, for example. The scorer provides it.

    It takes no place at the scorer's gate: the outer request has one already.
    """

    def __init__(self) -> None:
        self._score: Callable[[ScoreRequest], Awaitable[InnerScore]] | None = None
        self._check: Callable[[Task], None] = lambda task: None

    def provide(
        self,
        score: Callable[[ScoreRequest], Awaitable[InnerScore]],
        check: Callable[[Task], None],
    ) -> None:
        self._score, self._check = score, check

    def check(self, task: Task) -> None:
        """Raise InvalidInput for a task whose inner answer no rubric can score."""
        self._check(task)

    async def score(self, request: ScoreRequest) -> InnerScore:
        """Return the rewards of the request's rubric; errors as in `Scorer.score`."""
        assert self._score is not None, "a scorer provides it before the first request"
        return await self._score(request)


@dataclass(frozen=True)
class Instruments:
    """The services and processes used by verifiers and environments."""

    sandbox: Sandbox
    judge: Judge
    symbolic: Symbolic
    players: ReplayPool = field(default_factory=ReplayPool)
    own: Own = field(default_factory=Own)
    workers: Workers = field(default_factory=Workers)
    #: Processor time for one answer in a worker process.
    cpu_s: float = 5.0
    #: Carries workflows out; without an executor in `ASSAY_EXECUTOR_CONFIG` it refuses to.
    workflows: WorkflowPlayer = field(default_factory=WorkflowPlayer)
    inner: InnerScoring = field(default_factory=InnerScoring)


@dataclass
class ComponentUsage:
    """The cost of measuring a component."""

    cost: Cost = field(default_factory=Cost)

    def charge(self, cost: Cost) -> None:
        self.cost = self.cost + cost
