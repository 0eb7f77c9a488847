"""Final answers, and which of them are equal."""

from assay_shared.types import Status
from assay_trainer.evaluate.playing.votes import with_votes
from assay_trainer.evaluation.records.sample_record import SampleRecord
from tests.support.fakes import FAILURE, make_task


def votes(texts: list[str], **task: object) -> list[str | None]:
    samples = [
        SampleRecord(
            task_id="t", index=i, text=text, num_tokens=1, truncated=False, outcome=Status.ACCEPTED
        )
        for i, text in enumerate(texts)
    ]
    return [one.vote for one in with_votes(make_task("t", **task), samples)]


def test_equal_values_have_one_vote() -> None:
    found = votes(["so \\boxed{0.5}", "#### 1/2", "\\boxed{3}"])
    assert found == ["0.5", "0.5", "3"]


def test_options_are_votes_by_their_letters() -> None:
    choice = {"choice": {"options": ["red", "blue"], "answer": "B"}}
    assert votes(["Answer: B", "It is (B).", "Answer: A"], checks=choice) == ["B", "B", "A"]


def test_a_sample_without_a_score_has_no_vote() -> None:
    lost = SampleRecord(
        task_id="t",
        index=0,
        text="#### 1",
        num_tokens=1,
        truncated=False,
        outcome=None,
        failure=FAILURE,
    )
    assert [one.vote for one in with_votes(make_task(), [lost])] == [None]
