"""Protocols between services. Clients implement them over HTTP, tests implement them as fakes."""

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
    """A source of completions, sampled from the policy."""

    async def generate(self, request: GenerateRequest) -> GenerateResponse: ...


class WeightSink(Protocol):
    """A receiver of new weights. It raises WeightsRefused or Conflict for wrong ones."""

    async def update_weights(self, update: WeightUpdate) -> WeightStatus: ...

    async def weight_status(self) -> WeightStatus: ...


class Sandbox(Protocol):
    """A runner of untrusted programs. It raises our faults; the result holds the program's own."""

    async def execute(self, request: ExecutionRequest) -> ExecutionResult: ...

    async def test(self, request: TestRequest) -> TestReport: ...


class Judge(Protocol):
    """A judge of answers: right or wrong. An undecided answer comes back as an abstention."""

    async def judge(self, request: JudgeRequest) -> JudgeResponse: ...


class Rewarder(Protocol):
    """A scorer of groups: each answer gets a reward, or the failure to measure it."""

    async def score(self, request: ScoreRequest) -> ScoreResponse: ...


class Environment(Protocol):
    """A player of episodes; it keeps nothing between two steps."""

    async def step(self, request: StepRequest) -> StepResponse: ...


class RewardService(Rewarder, Environment, Protocol):
    """Everything needed by a rollout after generation."""
