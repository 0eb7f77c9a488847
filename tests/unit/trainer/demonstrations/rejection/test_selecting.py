"""Which samples of a task become demonstrations."""

from assay_shared.types import Role, Status
from assay_trainer.demonstrations.rejection.selecting import TaskSamples, select
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord
from tests.support.evaluations import RIGHT, WRONG, make_answer

TASK = EvaluatedTask(id="t", dataset="d", role=Role.TRAIN, prompt="Solve it.")


def samples(*texts: str, outcome: Status | None = RIGHT, **values: object) -> list[SampleRecord]:
    return [make_answer("t", at, outcome, text=text, **values) for at, text in enumerate(texts)]


def test_a_failure_is_no_wrong_answer() -> None:
    found = samples("a") + samples("b", outcome=WRONG) + samples("", "", outcome=None)
    selection = select(TaskSamples(TASK, found), 4, None)
    assert (selection.num_scored, selection.num_accepted) == (2, 1)
    assert selection.left_out == {"no_score": 2, "not_accepted": 1}
    assert [one.text for one in selection.chosen] == ["a"]


def test_answers_of_the_same_words_count_once_and_the_shorter_stays() -> None:
    found = samples("The answer is: 4!", "the answer is 4", "It is 4")
    selection = select(TaskSamples(TASK, found), 4, None)
    assert [one.text for one in selection.chosen] == ["It is 4", "the answer is 4"]
    assert selection.left_out == {"same_answer": 1}


def test_the_second_answer_differs_most_and_is_short() -> None:
    found = samples("one two", "one two three", "four five", "six seven eight nine")
    selection = select(TaskSamples(TASK, found), 2, None)
    assert [one.text for one in selection.chosen] == ["one two", "four five"]
    assert selection.left_out == {"over_per_task": 2}


def test_cut_off_empty_and_played_answers_are_left_out() -> None:
    found = samples("long", truncated=True) + samples(" \n") + samples("x", turns=(("x", "y"),))
    selection = select(TaskSamples(TASK, found), 4, None)
    assert selection.chosen == ()
    assert selection.num_accepted == 3
    assert selection.left_out == {"truncated": 1, "empty": 1, "episode": 1}


def test_a_bound_takes_the_place_of_the_rubrics_verdict() -> None:
    found = samples("a", outcome=WRONG, reward=0.8) + samples("b", reward=0.2)
    selection = select(TaskSamples(TASK, found), 4, 0.5)
    assert [one.text for one in selection.chosen] == ["a"]
    assert selection.num_accepted == 1


def test_template_tokens_are_left_out() -> None:
    found = samples("<|im_start|>assistant\nThe answer is 4")
    selection = select(TaskSamples(TASK, found), 4, None)
    assert selection.chosen == ()
    assert selection.num_scored == 1
    assert selection.left_out == {"control_token": 1}
