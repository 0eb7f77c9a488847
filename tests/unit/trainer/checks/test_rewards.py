"""Proof of rewards with a rewarder under the test's orders."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from assay_shared.errors import DatasetError, InternalFault, NotReady, Unauthorized
from assay_shared.types import (
    CallCase,
    Failure,
    FailureClass,
    GroupFailed,
    Reward,
    RubricInfo,
    ScoreBatch,
    ScoreBatchResponse,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Status,
    Task,
)
from assay_trainer.checks import rewards as validation
from assay_trainer.checks.baselines import TRIVIAL_POLICIES, audit, policies_for
from assay_trainer.checks.rewards import GOLD, RewardFinding, Validation, validate
from assay_trainer.checks.tables import audit_table
from assay_trainer.checks.wrong_answers import WRONG_ANSWERS, Corpus
from tests.support.fakes import make_rewards, make_task

TASKS = [
    make_task(name, gold=f"It is {value}.\n#### {value}", reference=value, rubric="math", tests=())
    for name, value in (("a", "3"), ("b", "4"), ("c", "5"), ("d", "4.0"))
]
Value = Callable[[Task, str], float | None]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed answers are not asked for again."""
    monkeypatch.setattr(validation, "GIVE_UP_AFTER_S", 0.0)


class TableRewarder:
    """Gives each answer a function's value; None is a failure."""

    def __init__(self, value: Value, error: Exception | GroupFailed | None = None) -> None:
        self.value = value
        self.error = error
        self.requests: list[ScoreRequest] = []

    async def rubrics(self) -> list[RubricInfo]:
        return [RubricInfo(name="math", scorer="math@1", description="", highest=2.0, shares={})]

    async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse:
        self.requests += batch.requests
        if isinstance(self.error, Exception):
            raise self.error
        return ScoreBatchResponse(responses=tuple(map(self._score, batch.requests)))

    def _score(self, request: ScoreRequest) -> ScoreResponse | GroupFailed:
        if isinstance(self.error, GroupFailed):
            return self.error
        rewards: list[Reward] = []
        for answer in request.answers:
            (reward,) = make_rewards(self.value(request.task, str(answer.text)))
            if isinstance(reward, Scored):
                outcome = Status.ACCEPTED if reward.value == 2.0 else Status.WRONG_ANSWER
                reward = reward.model_copy(update={"outcome": outcome})
            rewards.append(reward)
        return ScoreResponse(rewards=tuple(rewards), scorer="math@1")


def last_line_decides(task: Task, answer: str) -> float:
    return 2.0 if answer.endswith(f"#### {task.reference}") else 0.5


async def run(rewarder: TableRewarder, tasks: list[Task] = TASKS) -> Validation:
    return await validate(tasks, Corpus(tasks), rewarder)


async def test_gold_gets_the_highest_and_nothing_else_does() -> None:
    told: list[int] = []
    rewarder = TableRewarder(last_line_decides)
    found = await validate(TASKS, Corpus(TASKS), rewarder, on_scored=told.append)
    assert found.found(RewardFinding.EXCEPTION) == found.found(RewardFinding.FAILURE) == []
    assert [check.kind for check in found.of_kind(GOLD)] == [GOLD] * 4
    assert found.bad_share == 0.0
    assert sum(told) == 4
    assert all(a.num_tokens is not None for r in rewarder.requests for a in r.answers)


async def test_a_gold_answer_below_the_highest_and_a_wrong_one_at_it_are_exceptions(
    tmp_path: Path,
) -> None:
    def value(task: Task, answer: str) -> float:
        if task.id == "a":
            return 1.0
        return 2.0 if (task.id, answer) == ("b", "") else last_line_decides(task, answer)

    found = await run(TableRewarder(value))
    assert [(c.task.id, c.kind) for c in found.found(RewardFinding.EXCEPTION)] == [
        ("a", GOLD),
        ("b", "empty"),
    ]
    assert (found.num_bad, found.bad_share) == (2, 0.5)
    found.refuse(0.5)
    with pytest.raises(DatasetError, match="max_bad_share: 2 of 4 tasks .* a first, gold"):
        found.refuse(0.4)
    found.write(tmp_path / "odd.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "odd.jsonl").read_text().splitlines()]
    assert [(row["task_id"], row["kind"], row["finding"]) for row in rows] == [
        ("a", "gold", "exception"),
        ("b", "empty", "exception"),
    ]


async def test_a_failure_is_neither() -> None:
    def value(task: Task, answer: str) -> float | None:
        return None if task.id == "a" else last_line_decides(task, answer)

    found = await run(TableRewarder(value))
    assert {check.task.id for check in found.found(RewardFinding.FAILURE)} == {"a"}
    assert found.num_measured == 3
    assert found.bad_share == 0.0


async def test_with_nothing_measured_nothing_is_proved() -> None:
    found = await run(TableRewarder(lambda task, answer: None))
    with pytest.raises(InternalFault, match="no task could be measured: planted"):
        found.refuse(1.0)
    for error in (NotReady("starting"), Unauthorized("no token")):
        with pytest.raises(type(error)):
            await run(TableRewarder(last_line_decides, error))


async def test_a_task_that_cannot_be_scored_at_all_is_an_exception() -> None:
    failure = Failure(
        failure_class=FailureClass.INTERNAL,
        service="reward",
        message="task.reference: nothing to compare with",
        retryable=False,
    )
    found = await run(TableRewarder(last_line_decides, GroupFailed(failure=failure)))
    assert found.bad_share == 1.0


def test_another_rows_gold_is_one_of_another_value() -> None:
    corpus = Corpus(TASKS)
    for task in TASKS:
        given = WRONG_ANSWERS["another row's gold"](task, corpus)
        assert given is not None
        assert last_line_decides(task, given) == 0.5
    assert corpus.others(TASKS[1], 9) == [TASKS[2].gold, TASKS[0].gold]
    assert WRONG_ANSWERS["another row's gold"](TASKS[0], Corpus(TASKS[:1])) is None


def test_everything_holds_the_right_answer_but_not_at_the_end() -> None:
    given = WRONG_ANSWERS["everything"](TASKS[0], Corpus(TASKS))
    assert given is not None
    assert "#### 3\n" in given
    assert last_line_decides(TASKS[0], given) == 0.5


def test_hostile_programs_fit_where_the_task_begins_them() -> None:
    case = CallCase(function="f", args=(), expected=1)
    whole = make_task(tests=(case,))
    begun = make_task(tests=(case,), code_prefix="def f():\n")
    for kind in ("sys.exit(0)", "os._exit(0)", "everything"):
        assert WRONG_ANSWERS[kind](TASKS[0], Corpus([])) is None
        for task in (whole, begun):
            compile(task.code_prefix + (WRONG_ANSWERS[kind](task, Corpus([])) or "("), "p", "exec")
    assert WRONG_ANSWERS["always equal"](whole, Corpus([])) is None
    compile(
        begun.code_prefix + (WRONG_ANSWERS["always equal"](begun, Corpus([])) or "("), "p", "exec"
    )


# Audit


async def test_an_audit_shows_what_no_skill_earns() -> None:
    def value(task: Task, answer: str) -> float | None:
        return 2.0 if answer.endswith(str(task.reference)) else 0.0

    tasks = [*TASKS, make_task("e", gold="#### 4", reference="4", rubric="math", tests=())]
    earned = await audit(tasks, TableRewarder(value))
    assert next(iter(earned)) == GOLD
    assert earned[GOLD].reward().value == 2.0
    assert earned["most frequent gold"].reward().value == 0.8
    assert earned["most frequent gold"].accepted().value == 0.4
    interval = earned["most frequent gold"].reward()
    assert interval.low <= 0.8 <= interval.high
    assert earned["empty"].reward().value == 0.0
    assert earned["another row's gold"].reward().value == 0.0


async def test_a_reward_that_is_equal_on_all_tasks_has_no_interval() -> None:
    tasks = [*TASKS, make_task("e", gold="#### 4", reference="4", rubric="math", tests=())]
    right = TableRewarder(lambda task, answer: float(answer.endswith(str(task.reference))))
    earned = await audit(tasks, right)
    console = Console(record=True, width=200)
    console.print(audit_table(earned))
    rows = {line.split("|")[1].strip(): line for line in console.export_text().splitlines()[2:-1]}
    gold, other = rows["gold"], rows["most frequent gold"]
    assert "1.000 (equal on all tasks)" in gold
    assert re.search(r" 0\.400 \(0\.\d+ to [01]\.\d+\) ", other)


async def test_an_audit_leaves_failures_out() -> None:
    earned = await audit(TASKS, TableRewarder(lambda task, answer: None))
    assert earned[GOLD].rewards == []
    assert earned[GOLD].num_failures == 4


def test_an_environment_may_have_policies_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"name": "maze", "instance": {}, "max_turns": 2}
    task = make_task(environment=environment)
    assert "empty" in policies_for(task)
    own = {"go north": lambda task, corpus: ("north", "north")}
    monkeypatch.setitem(TRIVIAL_POLICIES, "maze", own)
    assert policies_for(task) == own
