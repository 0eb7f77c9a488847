"""The parts of a run that sample, score and publish, for its stages and for a plan."""

from dataclasses import dataclass

from assay_shared.runs.queue import make_celery
from assay_shared.types import PolicyVersion
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.policy import Policy
from assay_trainer.pipeline.run_sets import RunSets
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.store import GroupStore
from assay_trainer.weights.publisher import WeightPublisher


@dataclass(frozen=True)
class Parts:
    """The parts of a run to sample, score and publish with."""

    run: RunContext
    sets: RunSets
    store: GroupStore
    publisher: WeightPublisher

    def dispatcher(self, timeout_s: float, attempts: int) -> RolloutDispatcher:
        """Return a dispatcher with `attempts` attempts of `timeout_s` seconds per group."""
        celery = make_celery(self.run.settings.redis_url)
        return RolloutDispatcher(celery, self.store, timeout_s=timeout_s, attempts=attempts)

    def while_waiting(self) -> None:
        """Check for a stop, and publish again if inference restarted without the weights."""
        self.run.stop.check()
        self.publisher.ensure_served()

    def serve(self, policy: Policy) -> PolicyVersion:
        """Return the policy's version once inference serves it."""
        served = self.publisher.publish(*policy).policy
        assert isinstance(served, PolicyVersion)
        return served
