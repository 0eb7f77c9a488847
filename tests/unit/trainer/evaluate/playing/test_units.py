"""What is left to play of a task."""

from assay_trainer.evaluate.playing.units import next_of_budget, units_of
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.evaluation.records.sample_record import SampleRecord
from tests.support.fakes import make_task

TASK = make_task()


def sample(index: int, num_tokens: int = 10) -> SampleRecord:
    return SampleRecord(
        task_id="t",
        index=index,
        text="",
        num_tokens=num_tokens,
        truncated=False,
        outcome="accepted",
    )


def left(stored: list[int], **protocol: object) -> list[tuple[int, int]]:
    known = {index: sample(index) for index in stored}
    made = Protocol.model_validate({"temperature": 1.0} | protocol)
    return [(one.first, one.num) for one in units_of(TASK, 0, known, made)]


def test_a_unit_names_its_known_samples() -> None:
    known = {index: sample(index) for index in (0, 2, 32)}
    protocol = Protocol(kind="sampled", samples_per_task=35, temperature=1.0)
    assert [one.known for one in units_of(TASK, 0, known, protocol)] == [[0, 2], [32]]


def test_only_units_with_a_missing_sample_are_played() -> None:
    many = {"kind": "sampled", "samples_per_task": 70}
    assert left([], **many) == [(0, 32), (32, 32), (64, 6)]
    assert left([*range(40)], **many) == [(32, 32), (64, 6)]
    assert left([*range(70)], **many) == []


def test_all_votes_of_a_task_are_played_together() -> None:
    assert left([0, 1], kind="majority", samples_per_task=70) == [(0, 70)]


def test_a_budget_ends_with_its_last_token() -> None:
    protocol = Protocol(
        kind="budget", budget_tokens=25, samples_per_task=3, max_tokens=10, temperature=1.0
    )

    first = next_of_budget(TASK, 0, [], protocol)
    third = next_of_budget(TASK, 0, [sample(0), sample(1)], protocol)

    assert first is not None
    assert (first.first, first.max_tokens) == (0, 10)
    assert third is not None
    assert (third.first, third.max_tokens) == (2, 5)
    assert next_of_budget(TASK, 0, [sample(0), sample(1, 15)], protocol) is None
    assert next_of_budget(TASK, 0, [sample(i, 1) for i in range(3)], protocol) is None
