"""The seams between services. Clients implement them over HTTP, tests implement them as fakes."""

from typing import Protocol

from assay_shared.types import (
    ExecutionRequest,
    ExecutionResult,
    GenerateRequest,
    GenerateResponse,
    JudgeRequest,
    JudgeResponse,
    ScoreRequest,
    ScoreResponse,
    StepRequest,
    StepResponse,
    TestReport,
    TestRequest,
    WeightStatus,
    WeightUpdate,
)


class Generator(Protocol):
    """Samples completions from the policy."""

    async def generate(self, request: GenerateRequest) -> GenerateResponse: ...


class WeightSink(Protocol):
    """Takes new weights; raises WeightsRefused or Conflict rather than serve wrong ones."""

    async def update_weights(self, update: WeightUpdate) -> WeightStatus: ...

    async def weight_status(self) -> WeightStatus: ...


class Sandbox(Protocol):
    """Runs untrusted programs. Raises for our faults; the program's own are in the result."""

    async def execute(self, request: ExecutionRequest) -> ExecutionResult: ...

    async def test(self, request: TestRequest) -> TestReport: ...


class Judge(Protocol):
    """Decides whether answers are right. An answer it cannot decide comes back as an abstention."""

    async def judge(self, request: JudgeRequest) -> JudgeResponse: ...


class Rewarder(Protocol):
    """Scores a group: per answer either a reward or the failure that prevented one."""

    async def score(self, request: ScoreRequest) -> ScoreResponse: ...


class Environment(Protocol):
    """Plays episodes; keeps nothing between two steps."""

    async def step(self, request: StepRequest) -> StepResponse: ...


class RewardService(Rewarder, Environment, Protocol):
    """All that a rollout needs after generation."""
