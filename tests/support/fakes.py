"""Neighbours under the test's orders: real classes behind the seams, with their calls recorded."""

import asyncio

from assay_shared.errors import AssayError
from assay_shared.types import (
    CaseResult,
    Completion,
    ExecutionRequest,
    ExecutionResult,
    Failure,
    FailureClass,
    FinishReason,
    GenerateRequest,
    GenerateResponse,
    Grading,
    Group,
    JudgeRequest,
    JudgeResponse,
    Label,
    PolicyVersion,
    Reward,
    Role,
    Rollout,
    Scored,
    ScoredGroup,
    ScoreRequest,
    ScoreResponse,
    Status,
    StdinCase,
    StepRequest,
    StepResponse,
    Task,
    TestReport,
    TestRequest,
    Unscored,
    Verdict,
)

POLICY = PolicyVersion(version=1, digest="d1")
FAILURE = Failure(
    failure_class=FailureClass.SANDBOX, service="sandbox", message="planted", retryable=True
)


def make_task(task_id: str = "t", **changes: object) -> Task:
    """A task; with stdin cases unless others are given."""
    values: dict[str, object] = {
        "id": task_id,
        "dataset": "test",
        "role": Role.TRAIN,
        "prompt": f"question {task_id}",
        "rubric": "code.dense",
        "gold": "gold",
        "tests": (StdinCase(stdin="", expected_stdout="1"),),
    }
    return Task.model_validate(values | changes)


def make_rollout(text: str = "x", policy: PolicyVersion = POLICY) -> Rollout:
    return Rollout.of(make_completion(text, policy))


def make_completion(text: str = "x", policy: PolicyVersion = POLICY) -> Completion:
    return Completion(
        token_ids=(5, 6),
        logprobs=(-0.5, -0.25),
        text=text,
        finish_reason=FinishReason.STOP,
        policy=policy,
    )


def scored(value: float) -> Scored:
    outcome = Status.ACCEPTED if value == 1.0 else Status.WRONG_ANSWER
    return Scored(value=value, outcome=outcome, components=())


def make_rewards(*values: float | None) -> tuple[Reward, ...]:
    """None stands for a sample without a score."""
    return tuple(Unscored(failure=FAILURE) if v is None else scored(v) for v in values)


def make_scored_group(
    key: str, *values: float | None, policy: PolicyVersion = POLICY, task: Task | None = None
) -> ScoredGroup:
    return ScoredGroup(
        group=Group(
            key=key,
            task=task or make_task(key),
            prompt_token_ids=(1, 2, 3),
            rollouts=tuple(make_rollout(policy=policy) for _ in values),
        ),
        rewards=make_rewards(*values),
        scorer="test@0",
        worker="w",
    )


class FakeGenerator:
    """Answers with its texts, a text per sample, over and over."""

    def __init__(self, texts: list[str], policy: PolicyVersion = POLICY) -> None:
        self.texts = texts
        self.policy = policy
        self.requests: list[GenerateRequest] = []
        self.error: AssayError | None = None

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        texts = (self.texts * request.sampling.n)[: request.sampling.n]
        return GenerateResponse(
            prompt_token_ids=(1, 2, 3),
            completions=tuple(make_completion(text, self.policy) for text in texts),
        )


class FakeRewarder:
    """Rewards each answer by a table; None fails. Answers not listed score 0."""

    def __init__(self, table: dict[str, float | None]) -> None:
        self.table = table
        self.requests: list[ScoreRequest] = []
        self.error: AssayError | None = None
        self.step_error: AssayError | None = None

    async def score(self, request: ScoreRequest) -> ScoreResponse:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        values = (self.table.get(str(answer.text), 0.0) for answer in request.answers)
        return ScoreResponse(rewards=make_rewards(*values), scorer="fake@0")

    async def step(self, request: StepRequest) -> StepResponse:
        """Repeats the reply; `stop` ends the episode."""
        if self.step_error is not None:
            raise self.step_error
        said = request.turns[-1]
        return StepResponse(observation=f"you said {said}", done=said == "stop")


class FakeSandbox:
    """Passes as many cases as programs say: `pass 3` passes three. `fail` raises."""

    def __init__(self, error: AssayError | None = None) -> None:
        self.requests: list[TestRequest] = []
        self.error = error

    async def execute(self, request: ExecutionRequest) -> ExecutionResult:
        return ExecutionResult(status=Status.ACCEPTED, isolation="fake")

    async def test(self, request: TestRequest) -> TestReport:
        self.requests.append(request)
        if self.error is not None and "fail" in request.code:
            await asyncio.sleep(0)
            raise self.error
        num_passed = int(request.code.split()[1])
        cases = [Status.ACCEPTED] * num_passed
        cases += [Status.WRONG_ANSWER] * (len(request.cases) - num_passed)
        return TestReport(
            status=next((c for c in cases if c is not Status.ACCEPTED), Status.ACCEPTED),
            cases=tuple(CaseResult(status=status) for status in cases),
            grading=Grading.OUTSIDE,
            isolation="fake",
        )


class FakeJudge:
    """Finds answers equal to the reference correct. With an error, judges nothing."""

    def __init__(self, error: AssayError | None = None) -> None:
        self.requests: list[JudgeRequest] = []
        self.error = error

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return JudgeResponse(
            judgements=tuple(
                Verdict(
                    label=Label.CORRECT if a == request.reference else Label.INCORRECT,
                    judge="fake",
                )
                for a in request.answers
            )
        )
