"""A stored evaluation is resumed only by the same protocol, policy and sets."""

from pathlib import Path

import pytest

from assay_shared.errors import Conflict, DatasetError
from assay_shared.types import Role
from assay_trainer.evaluate.sets import OpenSet, digest_of
from assay_trainer.evaluate.store import EvaluationStore
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy, EvaluatedSet
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.evaluation.records.sample_record import SampleRecord
from tests.support.fakes import FAILURE, make_task

GREEDY = Protocol()
POLICY = EvaluatedPolicy(kind="folder", name="m", digest="d")


def a_set(name: str, number: int) -> OpenSet:
    tasks = [make_task(f"t{i}", role=Role.TEST) for i in range(number)]
    facts = EvaluatedSet(
        name=name, source=name, roles={Role.TEST: number}, num_tasks=number, digest=digest_of(tasks)
    )
    return OpenSet(facts, tasks)


def begin(
    path: Path,
    sets: list[OpenSet],
    policy: EvaluatedPolicy = POLICY,
    protocol: Protocol = GREEDY,
) -> EvaluationStore:
    return EvaluationStore.begin(EvaluationFolder(path), policy, protocol, sets, {})


def test_differences_are_refused_by_name_and_further_sets_are_added(tmp_path: Path) -> None:
    store = begin(tmp_path, [a_set("a", 2)])
    store.add_samples("a", [sample("t0", lost=True)], "r@1")
    store.finish()

    with pytest.raises(Conflict, match="another protocol: max_tokens: 512, not 64"):
        begin(tmp_path, [a_set("a", 2)], protocol=Protocol(max_tokens=64))
    with pytest.raises(Conflict, match="another set a: 2 tasks of a with digest"):
        begin(tmp_path, [a_set("a", 3)])
    with pytest.raises(Conflict, match="another policy: digest d, not e"):
        begin(tmp_path, [a_set("a", 2)], POLICY.model_copy(update={"digest": "e"}))
    moved = POLICY.model_copy(update={"name": "elsewhere/m"})
    resumed = begin(tmp_path, [a_set("b", 1)], moved)
    assert [one.name for one in resumed.record.sets] == ["a", "b"]
    assert resumed.record.finished is None


def test_a_folder_without_a_sample_takes_what_was_corrected(tmp_path: Path) -> None:
    begin(tmp_path, [a_set("a", 2), a_set("gone", 1)])
    policy = POLICY.model_copy(update={"digest": "e"})
    store = begin(tmp_path, [a_set("a", 3)], policy, Protocol(max_tokens=64))
    assert [(one.name, one.num_tasks) for one in store.record.sets] == [("a", 3)]
    assert store.record.policy == policy
    assert len(store.usable_samples("a")) == 3
    store.finish()
    with pytest.raises(Conflict, match="another protocol"):
        begin(tmp_path, [a_set("a", 3)], policy)


def sample(task: str, index: int = 0, *, lost: bool = False) -> SampleRecord:
    return SampleRecord(
        task_id=task,
        index=index,
        text="",
        num_tokens=1,
        truncated=False,
        outcome=None if lost else "accepted",
        reward=None if lost else 1.0,
        failure=FAILURE if lost else None,
    )


def test_samples_without_a_score_are_dropped_and_asked_for_again(tmp_path: Path) -> None:
    store = begin(tmp_path, [a_set("a", 2)])
    store.add_samples("a", [sample("t0"), sample("t1", lost=True)], "r@1")

    found = store.usable_samples("a")

    assert [[*one] for one in found.values()] == [[0], []]
    assert store.folder.samples("a").read_text().count("\n") == 1


def test_samples_are_added_after_a_blank_end(tmp_path: Path) -> None:
    store = begin(tmp_path, [a_set("a", 2)])
    store.add_samples("a", [sample("t0")], "r@1")
    with store.folder.samples("a").open("a") as file:
        file.write("\n")

    assert [[*one] for one in store.usable_samples("a").values()] == [[0], []]
    store.add_samples("a", [sample("t1")], "r@1")
    assert [[*one] for one in store.usable_samples("a").values()] == [[0], [0]]


def test_a_rubric_that_computes_something_else_now_is_refused(tmp_path: Path) -> None:
    begin(tmp_path, [a_set("a", 2)]).add_samples("a", [sample("t0")], "code.sparse@1")
    again = begin(tmp_path, [a_set("a", 2)])
    again.add_samples("a", [], "math@7")

    with pytest.raises(Conflict, match="code.sparse is code.sparse@2 now"):
        again.add_samples("a", [sample("t1")], "code.sparse@2")
    assert again.facts("a").scorers == ("code.sparse@1", "math@7")


def test_an_edited_file_of_tasks_is_refused(tmp_path: Path) -> None:
    begin(tmp_path, [a_set("a", 2)]).finish()
    tasks = tmp_path / "a" / "tasks.jsonl"
    EvaluationFolder(tmp_path).read_set(read_facts(tmp_path))
    tasks.write_text(tasks.read_text().replace('"role": "test"', '"role": "val"'))
    with pytest.raises(DatasetError, match="was edited after the evaluation") as refused:
        EvaluationFolder(tmp_path).read_set(read_facts(tmp_path))
    assert refused.value.field == "sets.a.stored_digest"


def read_facts(path: Path) -> EvaluatedSet:
    return EvaluationFolder(path).read_record().sets[0]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"option_logprobs": {"A": -1.0, "B": float("nan")}}, "option_logprobs.B: Input should be"),
        ({"reward": float("-inf")}, "reward: Input should be a finite number"),
        ({"components": {"likelihood": 0.0}}, "the outcome is accepted, and the component"),
        ({"measures": {"tries": 10**5000}}, "cannot be stored: "),
    ],
)
def test_a_sample_that_could_not_be_read_back_is_stored_as_a_failure(
    tmp_path: Path, values: dict[str, object], reason: str
) -> None:
    store = begin(tmp_path, [a_set("a", 1)])

    (found,) = store.add_samples("a", [sample("t0").model_copy(update=values)], "")

    assert found.failure is not None
    assert reason in found.failure.message
    assert begin(tmp_path, [a_set("a", 1)]).usable_samples("a") == {"t0": {}}
