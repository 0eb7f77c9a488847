"""Services and processes used by verifiers and environments, and the cost of their use."""

from dataclasses import dataclass, field

from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.own.instruments import Own
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.interfaces import Judge, Sandbox
from assay_shared.runtime.workers import Workers
from assay_shared.types import Cost


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


@dataclass
class ComponentUsage:
    """The cost of measuring a component."""

    cost: Cost = field(default_factory=Cost)

    def charge(self, cost: Cost) -> None:
        self.cost = self.cost + cost
