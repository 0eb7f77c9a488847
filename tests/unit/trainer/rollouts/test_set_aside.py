"""Unusable tasks: found before a run or in it, left out, and limited in number."""

import re
import time
from collections.abc import Callable, Mapping

import pytest

from assay_shared.errors import DatasetError
from assay_shared.types import (
    Failure,
    FailureClass,
    GroupRequest,
    Message,
    ScoredGroup,
    Task,
    Unscored,
)
from assay_trainer.config import EvaluationConfig
from assay_trainer.data.tokenization import too_long, too_long_to_learn
from assay_trainer.evaluation.evaluator import Evaluator, TaskEvaluation
from assay_trainer.events import TaskSetAside
from assay_trainer.learner.network.model import train_tokenizer
from assay_trainer.rollouts.set_aside import SetAside, unreadable, without_rubric
from tests.support.fakes import POLICY, make_scored_group, make_task
from tests.support.policies import TEXTS
from tests.unit.trainer.learner.test_batcher import ScriptedRollouts

TASKS = [make_task(f"t{i}") for i in range(40)]


def ledger(
    share: float = 0.05, report: Callable[[TaskSetAside], None] = lambda _: None
) -> SetAside:
    return SetAside("held-out", len(TASKS), share, report)


@pytest.mark.parametrize(
    ("share", "num_tasks", "allowed"),
    [(0.05, 40, 2), (0.05, 41, 3), (0.05, 3, 1), (0.0, 40, 0), (0.9, 40, 36)],
)
def test_the_share_is_rounded_up_to_whole_tasks(share: float, num_tasks: int, allowed: int) -> None:
    aside = SetAside("training", num_tasks, share, lambda _: None)
    for index in range(allowed):
        aside.add(make_task(f"t{index}"), "reason")
        aside.add(make_task(f"t{index}"), "another")  # counts once
    with pytest.raises(DatasetError, match=f"{allowed + 1} of {num_tasks} training tasks"):
        aside.add(make_task("one more"), "reason")


def test_what_is_found_together_is_counted_together_and_few_are_reported() -> None:
    told: list[TaskSetAside] = []
    aside = ledger(report=told.append)
    with pytest.raises(
        DatasetError, match="40 of 40 held-out tasks .* at most 2 .*; the last: t39"
    ):
        aside.add_all([(task, "no") for task in TASKS])
    assert len(told) == 3


def test_the_last_task_is_not_set_aside_even_where_the_share_allows_it() -> None:
    aside = SetAside("held-out", 2, 1.0, lambda _: None)
    aside.add(TASKS[0], "no rubric")
    with pytest.raises(DatasetError, match="all held-out tasks are set aside; the last: t1: long"):
        aside.add_all([(TASKS[1], "long")])


def test_rows_that_nobody_can_read_are_found_before_anything_is_written() -> None:
    half = Task.model_validate({"id": "half", "prompt": "a\ud800b"})
    deep = Task.model_validate({"id": "deep", "prompt": "x", "checks": {"a": ["\udfff"]}})
    own = Task.model_validate({"id": "\ud800", "prompt": "x"})
    history = make_task("history", prompt="", history=(Message(role="user", content="hi"),))
    found = unreadable([half, make_task("empty", prompt=" \n"), history, deep, own, *TASKS])
    assert [task.id for task, _ in found] == ["half", "empty", "deep", "\ud800"]
    told: list[TaskSetAside] = []
    aside = ledger(0.2, told.append)
    aside.add_all(found)
    assert "�" in told[-1].task or "?" in told[-1].task, "the record is text"
    assert len(aside.reasons) == 4


def test_unknown_rubrics_and_prompts_without_room_are_found_up_front() -> None:
    found = without_rubric([*TASKS, make_task("odd", rubric="code.dnese")], {"code.dense"})
    assert [(task.id, reason) for task, reason in found] == [
        ("odd", "there is no rubric 'code.dnese'")
    ]
    tokenizer = train_tokenizer(TEXTS, 320)
    long = make_task("long", prompt="word " * 300)
    found = too_long([make_task("short"), long], tokenizer, context=256, max_tokens=24)
    assert [task.id for task, _ in found] == ["long"]
    assert "leaves no room for 24 more in a context of 256" in found[0][1]
    assert too_long([make_task("s"), long], tokenizer, context=100_000, max_tokens=24) == []
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    ((_, reason),) = too_long([long], tokenizer, context=256, max_tokens=24)
    assert "roles must alternate" in reason


def test_demonstrations_longer_than_the_context_are_found_up_front() -> None:
    tokenizer = train_tokenizer(TEXTS, 320)
    given = [make_task("short"), make_task("long"), make_task("huge")]
    rows = list(zip(given, ("x", "word " * 300, "x" * 3_000_000), strict=True))
    started = time.monotonic()
    (long, reason), (huge, told) = too_long_to_learn(rows, tokenizer, context=256)
    assert time.monotonic() - started < 4.0, "a text that cannot fit is not tokenised"
    assert (long.id, huge.id) == ("long", "huge")
    assert re.match(r"its demonstration has \d+ tokens, and the policy's context 256", reason)
    assert told == "its demonstration is longer than a context of 256 tokens"
    assert too_long_to_learn(rows[:2], tokenizer, context=100_000) == []
    ((_, of_prompt),) = too_long([make_task("p", prompt="x" * 3_000_000)], tokenizer, 256, 24)
    assert of_prompt == "its prompt is longer than a context of 256 tokens"


def refused(request: GroupRequest) -> ScoredGroup:
    failure = Failure(
        failure_class=FailureClass.CALLER, service="inference", message="too long", retryable=False
    )
    scored = make_scored_group(request.key, task=request.task)
    return scored.model_copy(update={"failure": failure})


def evaluate(
    bad: Mapping[str, Callable[[GroupRequest], ScoredGroup]], aside: SetAside
) -> TaskEvaluation:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        if request.task.id in bad:
            return bad[request.task.id](request)
        return make_scored_group(request.key, 1.0, 0.0, task=request.task)

    evaluator = Evaluator(
        ScriptedRollouts(play),  # type: ignore[arg-type]  # of the same shape
        EvaluationConfig(samples_per_task=2, k=(1,)),
        run="r",
        seed=0,
        set_aside=aside,
        on_progress=lambda done, num_all: None,
        while_waiting=lambda: None,
    )
    return evaluator.evaluate("before", TASKS, POLICY)


def test_a_held_out_task_that_cannot_be_played_is_in_no_estimate() -> None:
    aside = ledger()
    found = evaluate({"t3": refused}, aside)
    assert len(found.results) == 39
    assert found.set_aside == {"t3": "too long"}
    assert found.interval(1).value == 0.5
    again = evaluate({"t3": lambda request: pytest.fail("it is not asked for again")}, aside)
    assert again.set_aside == found.set_aside


def test_a_rubric_that_every_sample_lacks_costs_its_task() -> None:
    lasting = Failure(
        failure_class=FailureClass.CALLER, service="reward", message="no rubric", retryable=False
    )

    def unscored(request: GroupRequest) -> ScoredGroup:
        scored = make_scored_group(request.key, 1.0, 1.0, task=request.task)
        return scored.model_copy(update={"rewards": (Unscored(failure=lasting),) * 2})

    assert evaluate({"t0": unscored}, ledger()).set_aside == {"t0": "no rubric"}


def test_too_many_held_out_tasks_end_the_evaluation_with_their_reason() -> None:
    bad = dict.fromkeys(("t1", "t2", "t3"), refused)
    with pytest.raises(DatasetError, match="3 of 40 held-out tasks .*; the last: t3: too long"):
        evaluate(bad, ledger())
