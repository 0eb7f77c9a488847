"""Steps of environments, with a limit on concurrent steps."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from assay_reward.environments import ENVIRONMENTS
from assay_reward.instruments import Instruments
from assay_shared.errors import NotFound
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.telemetry.context import client, request_id
from assay_shared.telemetry.metrics import LATENCY_BUCKETS_S
from assay_shared.types import StepRequest, StepResponse


class Steps:
    """The environments of the service; implements `Environment` for each name."""

    def __init__(
        self, instruments: Instruments, gate: FairLimiter, registry: CollectorRegistry | None = None
    ) -> None:
        registry = registry or CollectorRegistry()
        self._instruments = instruments
        self._gate = gate
        self._count = Counter(
            "assay_reward_steps",
            "Environment steps, by outcome.",
            ["environment", "outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "assay_reward_step_seconds",
            "Time to answer one turn.",
            ["environment"],
            registry=registry,
            buckets=LATENCY_BUCKETS_S,
        )

    async def step(self, name: str, request: StepRequest) -> StepResponse:
        """Return the environment's reply to the last turn.

        Raises:
            NotFound: no environment has this name.
            InvalidInput: the task has another environment, or its episode is over.
            Overloaded: too many steps wait already.
            InfrastructureError: there is no result; the turn can be sent again.
        """
        if name not in ENVIRONMENTS:
            known = ", ".join(sorted(ENVIRONMENTS))
            raise NotFound(
                f"no environment is called {name:.60}", field="name", hint=f"known: {known}"
            )
        outcome = "failed"
        async with self._gate.enter(client(), request_id()):
            with self._seconds.labels(name).time():
                try:
                    response = await ENVIRONMENTS[name].step(
                        request.task, request.turns, self._instruments
                    )
                    outcome = "done" if response.done else "going_on"
                finally:
                    self._count.labels(name, outcome).inc()
        return response
