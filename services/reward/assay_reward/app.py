"""The reward service over HTTP: routes for scoring, rubrics and environments."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry

from assay_reward.environments import ENVIRONMENTS
from assay_reward.environments.steps import Steps
from assay_reward.executor.config import ExecutorConfig
from assay_reward.executor.executor import Executor, make_executor
from assay_reward.formats.openrlhf import RemoteRewardRequest, RemoteRewards, remote_rewards
from assay_reward.idempotency import ResponseCache
from assay_reward.instruments import Instruments
from assay_reward.or_debug.episode.replay_pool import ReplayPool
from assay_reward.own.instruments import Own
from assay_reward.own.processes import FunctionProcesses
from assay_reward.rubric import Rubrics
from assay_reward.scorer import Scorer
from assay_reward.settings import RewardSettings
from assay_reward.workflows.execution.budgets import RunBudgets
from assay_reward.workflows.execution.model_sessions import SessionExecutor
from assay_reward.workflows.playing.player import WorkflowPlayer
from assay_shared.answers.formulas.symbolic import MODULES, Symbolic
from assay_shared.clients import JudgeClient, RetryBudget, SandboxClient, Timeouts
from assay_shared.errors import (
    ConfigError,
    Conflict,
    NotFound,
    SandboxFault,
    SolverFault,
    TimedOut,
    Unreachable,
)
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.runtime.workers import Workers
from assay_shared.service.app import create_service
from assay_shared.service.auth import needs
from assay_shared.service.bodies.route import put_first, up_to, use_json_routes
from assay_shared.service.responses import errors_of, errors_of_reading
from assay_shared.settings.api_keys import Scope
from assay_shared.settings.run_file import load_config
from assay_shared.telemetry.context import client
from assay_shared.types import (
    EnvironmentInfo,
    PartialReward,
    RubricInfo,
    ScoreBatch,
    ScoreBatchResponse,
    ScoreRequest,
    ScoreResponse,
    StepRequest,
    StepResponse,
)

#: How long a refused connection is retried if the sandbox or judge has never answered, or has
#: refused connections for long.
_ABSENT_S = 0.5
#: Largest body of a step: a task of an environment and all turns so far.
_EPISODE_BYTES = 8 * 2**20


def create_app(settings: RewardSettings) -> FastAPI:
    """Return the reward service with its rubrics loaded.

    Raises:
        ConfigError: a rubric or the executor cannot be used; nothing is served.
    """
    own = settings.reward_rubrics
    if own is not None and not own.exists():
        raise ConfigError(f"there is no file or folder {own}", field="ASSAY_REWARD_RUBRICS")
    rubrics = Rubrics(own, settings.allowed)
    scorer: Scorer
    steps: Steps

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal scorer, steps
        registry = app.state.metrics.registry
        running = settings.reward_max_running
        # One client gets at most three quarters of the places; the rest is for other clients.
        gate = FairLimiter(running, settings.reward_max_waiting, min_share=max(1, running * 3 // 4))
        step_gate = FairLimiter(
            settings.reward_max_steps_running, settings.reward_max_steps_waiting
        )
        responses = ResponseCache(settings.reward_keep_bytes)
        async with _open_instruments(settings, executor) as instruments:
            scorer = Scorer(rubrics, instruments, gate, responses, registry)
            steps = Steps(instruments, step_gate, registry)
            yield
        await large_bodies.close()

    app = create_service("reward", settings, lifespan, cancel_on_disconnect=True)
    large_bodies = use_json_routes(app)
    executor = _make_executor(settings, app.state.metrics.registry)
    _add_scoring(app, rubrics, lambda: scorer)
    _add_environments(app, lambda: steps)
    put_first(app)
    return app


def _make_executor(settings: RewardSettings, registry: CollectorRegistry) -> Executor | None:
    file = settings.executor_config
    if file is None:
        return None
    if not file.exists():
        raise ConfigError(f"there is no file {file}", field="ASSAY_EXECUTOR_CONFIG")
    redis_url = settings.redis_url if settings.executor_shared == "redis" else None
    return make_executor(load_config(ExecutorConfig, file), redis_url, registry)


def _workflow_player(
    executor: Executor | None, sandbox: SandboxClient, max_runs: int
) -> WorkflowPlayer:
    if executor is None:
        return WorkflowPlayer()

    def begin(budgets: RunBudgets, run: str) -> SessionExecutor:
        return SessionExecutor.begin(executor, budgets, caller=client(), run=run)

    return WorkflowPlayer(begin, sandbox, max_runs)


@asynccontextmanager
async def _open_instruments(
    settings: RewardSettings, executor: Executor | None
) -> AsyncIterator[Instruments]:
    attempt_s = settings.reward_attempt_timeout_s
    timeouts = Timeouts(read_s=attempt_s, total_s=attempt_s)
    retry = RetryBudget(total_s=settings.reward_retry_budget_s, absent_s=_ABSENT_S)
    modules = (*MODULES, "assay_reward.long_texts", "assay_reward.workflows.playing.reading")
    workers = Workers(modules, settings.reward_workers)
    cpu_s = settings.reward_answer_cpu_s
    symbolic = Symbolic(cpu_s, workers)
    own = Own(FunctionProcesses(settings.reward_python_processes))
    players = ReplayPool(
        settings.reward_solver_processes,
        settings.reward_solve_timeout_s,
        settings.reward_episode_timeout_s,
    )
    async with (
        SandboxClient.from_settings(settings, timeouts=timeouts, retry=retry) as sandbox,
        JudgeClient.from_settings(settings, timeouts=timeouts, retry=retry) as judge,
        AsyncExitStack() as stack,
    ):
        if executor is not None:
            await stack.enter_async_context(executor.opened())
        player = _workflow_player(executor, sandbox, settings.reward_max_workflows)
        yield Instruments(sandbox, judge, symbolic, players, own, workers, cpu_s, player)
    await own.close()
    players.close()
    workers.close()


def _add_scoring(app: FastAPI, rubrics: Rubrics, scorer: Callable[[], Scorer]) -> None:
    @app.get("/v1/rubrics", openapi_extra=needs(Scope.REWARD_READ), responses=errors_of_reading())
    async def list_rubrics() -> list[RubricInfo]:
        """List the rubrics, each with the effective share of its components."""
        return [rubric.info() for rubric in rubrics.all()]

    @app.post(
        "/v1/score",
        openapi_extra=needs(Scope.REWARD_SCORE),
        responses=errors_of(NotFound, Conflict),
    )
    async def score(request: ScoreRequest) -> ScoreResponse:
        """Score the answers to one task."""
        return await scorer().score(request)

    @app.post("/v1/score/batch", openapi_extra=needs(Scope.REWARD_SCORE), responses=errors_of())
    async def score_batch(batch: ScoreBatch) -> ScoreBatchResponse:
        """Score the answers to several tasks."""
        return await scorer().score_batch(batch)

    @app.post(
        "/v1/score/stream",
        response_class=StreamingResponse,
        openapi_extra=needs(Scope.REWARD_SCORE),
        responses=errors_of(NotFound),
    )
    async def score_stream(request: ScoreRequest) -> StreamingResponse:
        """Stream JSON lines: each reward as soon as it is known, then the whole response."""
        parts = scorer().stream(request)
        return StreamingResponse(_lines(parts), media_type="application/x-ndjson")

    @app.post("/get_reward", openapi_extra=needs(Scope.REWARD_SCORE), responses=errors_of(NotFound))
    async def get_reward(request: RemoteRewardRequest, rubric: str | None = None) -> RemoteRewards:
        """Score texts in OpenRLHF's remote-reward format: all of them or none."""
        return await remote_rewards(request, rubric, rubrics, scorer())


def _add_environments(app: FastAPI, steps: Callable[[], Steps]) -> None:
    @app.post(
        "/v1/environments/{name}/step",
        openapi_extra=needs(Scope.REWARD_STEP) | up_to(_EPISODE_BYTES),
        responses=errors_of(NotFound, SandboxFault, SolverFault, Unreachable, TimedOut),
    )
    async def step(name: str, request: StepRequest) -> StepResponse:
        """Return the observation that follows the turns so far."""
        return await steps().step(name, request)

    @app.get(
        "/v1/environments", openapi_extra=needs(Scope.REWARD_READ), responses=errors_of_reading()
    )
    async def list_environments() -> list[EnvironmentInfo]:
        """List the environments of this service."""
        return [
            EnvironmentInfo(name=name, description=environment.description)
            for name, environment in sorted(ENVIRONMENTS.items())
        ]


async def _lines(parts: AsyncIterator[PartialReward | ScoreResponse]) -> AsyncIterator[str]:
    async for part in parts:
        yield part.model_dump_json() + "\n"
