"""Final answers, and which of them are equal."""

from assay_shared.types import Status
from assay_trainer.evaluate.playing.votes import with_votes
from assay_trainer.evaluation.records.sample_record import SampleRecord
from tests.support.fakes import FAILURE, make_task


def sample(index: int, text: str) -> SampleRecord:
    return SampleRecord(
        task_id="t", index=index, text=text, num_tokens=1, truncated=False, outcome=Status.ACCEPTED
    )


def votes(texts: list[str], **task: object) -> list[str | None]:
    samples = [sample(index, text) for index, text in enumerate(texts)]
    return [one.vote for one in with_votes(make_task("t", **task), samples)]


def test_equal_values_have_one_vote() -> None:
    found = votes(["so \\boxed{0.5}", "#### 1/2", "\\boxed{3}"])
    assert found == ["0.5", "0.5", "3"]


def test_options_are_votes_by_their_letters() -> None:
    choice = {"choice": {"options": ["red", "blue"], "answer": "B"}}
    assert votes(["Answer: B", "It is (B).", "Answer: A"], checks=choice) == ["B", "B", "A"]


def test_votes_equal_to_stored_ones_have_their_text() -> None:
    samples = [sample(0, "#### 1/2"), sample(1, "#### 4"), sample(2, "\\boxed{4.0}")]
    found = with_votes(make_task("t"), samples, before=[None, "3", "0.5"])
    assert [one.vote for one in found] == ["0.5", "4", "4"]


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
