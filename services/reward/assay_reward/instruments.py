"""The services and processes that verifiers and environments ask, and what asking costs."""

from dataclasses import dataclass, field

from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.own.instruments import Own
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.interfaces import Judge, Sandbox
from assay_shared.runtime.workers import Workers
from assay_shared.types import Cost


@dataclass(frozen=True)
class Instruments:
    """The services and processes that verifiers ask."""

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
    """What measuring one component took."""

    cost: Cost = field(default_factory=Cost)

    def charge(self, cost: Cost) -> None:
        self.cost = self.cost + cost
