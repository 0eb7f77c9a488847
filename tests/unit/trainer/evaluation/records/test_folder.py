"""The folder of a stored evaluation."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_reward.verifiers import VERIFIERS
from assay_reward.verifiers.verifier import ValueRange
from assay_shared.errors import DatasetError, NotFound
from assay_shared.types import Failure, FailureClass, Role, Status
from assay_trainer.evaluation.records.consistency import EXACT_COMPONENTS
from assay_trainer.evaluation.records.evaluation_record import (
    EvaluatedPolicy,
    EvaluatedSet,
    EvaluationRecord,
)
from assay_trainer.evaluation.records.folder import EvaluationFolder, read_evaluation
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord


def sample(task: str, index: int = 0, text: str = "4") -> SampleRecord:
    return SampleRecord(
        task_id=task,
        index=index,
        text=text,
        num_tokens=3,
        truncated=False,
        outcome=Status.ACCEPTED,
        reward=1.0,
    )


TWICE = Protocol(kind=ProtocolKind.SAMPLED, samples_per_task=2, temperature=1.0)
BUDGET = Protocol(kind=ProtocolKind.BUDGET, samples_per_task=8, temperature=1.0, budget_tokens=6)


def written(
    path: Path, protocol: Protocol = TWICE, finished: float | None = None
) -> EvaluationFolder:
    """Return a folder with a set of two tasks and no samples."""
    folder = EvaluationFolder(path)
    sums = EvaluatedSet(
        name="sums", source="sums.jsonl", roles={Role.TEST: 2}, num_tasks=2, digest="0"
    )
    folder.write_record(
        EvaluationRecord(
            name="e",
            policy=EvaluatedPolicy(kind="server", name="http://host model"),
            protocol=protocol,
            protocol_digest=protocol.digest,
            sets=(sums,),
            started=1.0,
            finished=finished,
        )
    )
    tasks = [
        EvaluatedTask(id=one, dataset="sums", role=Role.TEST, prompt="2 + 2 =")
        for one in ("b", "a")
    ]
    folder.write_tasks("sums", tasks)
    return folder


def test_samples_come_back_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a", 1), sample("a", 0)])
    folder.append_samples("sums", [sample("b")])

    found = read_evaluation(tmp_path)

    assert not found.is_finished
    pairs = [(one.task_id, one.index) for one in found.sets["sums"].samples]
    assert pairs == [("b", 0), ("a", 0), ("a", 1)]
    assert [len(some) for some in found.sets["sums"].by_task.values()] == [1, 2]


def test_a_half_written_line_counts_for_nothing_and_is_removed(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a")])
    with folder.samples("sums").open("a") as file:
        file.write('{"task_id": "b", "ind')

    assert len(read_evaluation(tmp_path).sets["sums"].samples) == 1
    folder.append_samples("sums", [sample("b")])
    assert len(read_evaluation(tmp_path).sets["sums"].samples) == 2
    assert folder.samples("sums").read_text().count("\n") == 2


def test_a_blank_line_is_harmless_at_the_end_and_named_in_the_middle(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a"), sample("b")])
    file = folder.samples("sums")
    assert not folder.has_blank_end("sums")
    with file.open("a") as opened:
        opened.write("\n \n")

    assert len(read_evaluation(tmp_path).sets["sums"].samples) == 2
    assert folder.has_blank_end("sums")
    first, second = file.read_text().splitlines()[:2]
    file.write_text(f"{first}\n\n{second}\n")
    with pytest.raises(DatasetError, match=r"samples.jsonl:2: the line is blank"):
        read_evaluation(tmp_path)


def test_a_line_replaces_a_failure_and_no_score(tmp_path: Path) -> None:
    folder = written(tmp_path)
    lost = sample("a").model_copy(update={"outcome": None, "reward": None, "failure": LOST})
    folder.append_samples("sums", [lost, lost, sample("a", text="kept")])

    (found,) = read_evaluation(tmp_path).sets["sums"].samples

    assert found.text == "kept"
    folder.append_samples("sums", [sample("a", text="another")])
    with pytest.raises(DatasetError, match=r"index: .*jsonl:4: sample 0 of 'a' has a score"):
        read_evaluation(tmp_path)


def test_texts_with_lone_surrogates_are_kept(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a", text="half \ud83d of a sign")])

    (found,) = read_evaluation(tmp_path).sets["sums"].samples

    assert found.text == "half \ud83d of a sign"


def test_what_cannot_be_read_is_named_with_its_line_and_field(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="none does not exist"):
        read_evaluation(tmp_path / "none")
    with pytest.raises(NotFound, match="is not an evaluation: it has no evaluation.json"):
        read_evaluation(tmp_path)
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a")])
    whole = folder.samples("sums").read_text()
    folder.samples("sums").write_text(whole + whole.replace('"index": 0', '"index": -1'))

    with pytest.raises(DatasetError, match=r"index: .*samples.jsonl:2: Input should be"):
        read_evaluation(tmp_path)
    folder.samples("sums").write_text(whole.replace('"a"', '"c"'))
    with pytest.raises(DatasetError, match=r"task_id: .*samples.jsonl:1: no task is called 'c'"):
        read_evaluation(tmp_path)


LOST = Failure(
    failure_class=FailureClass.SANDBOX, service="sandbox", message="planted", retryable=True
)
WHOLE = [sample(task, index) for task in ("b", "a") for index in (0, 1)]
Change = Callable[[EvaluationFolder], None]


def in_record(**values: object) -> Change:
    def change(folder: EvaluationFolder) -> None:
        file = folder.path / "evaluation.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


def in_protocol(folder: EvaluationFolder) -> None:
    record = json.loads((folder.path / "evaluation.json").read_text())
    in_record(protocol=record["protocol"] | {"temperature": 0.5})(folder)


def without_a_task(folder: EvaluationFolder) -> None:
    file = folder.tasks("sums")
    file.write_text(file.read_text().splitlines(keepends=True)[0])


def without_line(number: int) -> Change:
    def change(folder: EvaluationFolder) -> None:
        lines = folder.samples("sums").read_text().splitlines(keepends=True)
        folder.samples("sums").write_text("".join(lines[: number - 1] + lines[number:]))

    return change


def cut_at_half(folder: EvaluationFolder) -> None:
    text = folder.samples("sums").read_text()
    folder.samples("sums").write_text(text[: len(text) // 2])


def in_sample(**values: object) -> Change:
    def change(folder: EvaluationFolder) -> None:
        first, *more = folder.samples("sums").read_text().splitlines(keepends=True)
        folder.samples("sums").write_text(
            "".join([*more, json.dumps(json.loads(first) | values) + "\n"])
        )

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_record(protocol_digest="0" * 64), "protocol_digest: .*evaluation.json: '000000000000'"),
        (in_protocol, "protocol_digest: .*evaluation.json: .* is not the digest of the protocol"),
        (without_a_task, "sets.sums.num_tasks: .*tasks.jsonl has 1 tasks, and .* says 2"),
        (without_line(2), "samples.jsonl: .* its 3 lines lack sample 1 of 'b' "),
        (cut_at_half, "samples.jsonl: .* its [12] lines lack sample .* and [12] more"),
        (in_sample(failure=LOST.model_dump(mode="json")), "outcome: .*samples.jsonl:4: .* failure"),
        (
            in_sample(failure=LOST.model_dump(mode="json"), outcome=None),
            "reward: .*samples.jsonl:4: .* failure",
        ),
        (in_sample(outcome=None), "outcome: .*samples.jsonl:4: .* neither outcome nor failure"),
        (in_sample(outcome="sandbox_error"), "outcome: .*jsonl:4: sandbox_error is a failure"),
        (in_sample(reward=None), "reward: .*samples.jsonl:4: .* an outcome and no reward"),
        (in_sample(components={"math": 0.0}), "outcome: .*samples.jsonl:4: .* math is 0"),
        (in_sample(components={"pass_ratio": 0.5}), "outcome: .*jsonl:4: .* pass_ratio is 0.5"),
        (in_sample(components={"math": 0, "overlong": 0}), "outcome: .*jsonl:4: .* math is 0"),
        (in_sample(components={"math": 1}, outcome="time_limit"), "outcome: .* of a right answer"),
        (
            in_sample(components={"math": 1}, reward=0),
            "reward: .*jsonl:4: the reward is 0, ",
        ),
        (
            in_sample(components={"math": 0}, outcome="wrong_answer", reward=0.5),
            "reward: .*jsonl:4: the reward is 0.5, and all components are 0",
        ),
        (in_sample(measures={"rate": float("inf")}), "measures.rate: .*jsonl:4: .*finite number"),
        (in_sample(index=2), "index: .*samples.jsonl:4: 2 is not below"),
    ],
)
def test_files_that_contradict_each_other_are_refused(
    tmp_path: Path, change: Change, message: str
) -> None:
    folder = written(tmp_path, finished=2.0)
    folder.append_samples("sums", WHOLE)
    assert read_evaluation(tmp_path).is_finished
    change(folder)
    with pytest.raises(DatasetError, match=message):
        read_evaluation(tmp_path)


@pytest.mark.parametrize(
    ("components", "outcome", "reward"),
    [
        ({"pass_ratio": 0.6, "graded": 0.7}, "accepted", 0.7),  # a gate may be below 1
        ({"overlong": 0.0}, "accepted", 0.0),
        ({"own": 0.0}, "accepted", 0.0),
        ({"math": 1.0, "overlong": -0.5}, "accepted", 0.75),
        ({"math": 1.0, "accepted": 0.0}, "wrong_answer", 0.0),
        ({"pass_ratio": 0.4}, "wrong_answer", 0.0),  # in steps
        ({"math": 1.0}, "accepted", 2.0),
    ],
)
def test_what_some_rubric_can_say_is_read(
    tmp_path: Path, components: dict[str, float], outcome: Status, reward: float
) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a")])
    in_sample(components=components, outcome=outcome, reward=reward)(folder)
    assert len(read_evaluation(tmp_path).sets["sums"].samples) == 1


def test_a_right_answer_without_a_component_has_a_reward(tmp_path: Path) -> None:
    folder = written(tmp_path)
    folder.append_samples("sums", [sample("a")])
    in_sample(components={}, outcome=Status.ACCEPTED, reward=0.0)(folder)
    with pytest.raises(DatasetError, match="accepted, and the reward is 0, without a component"):
        read_evaluation(tmp_path)


def test_exact_components_are_verifiers_of_the_reward_service() -> None:
    own = {"likelihood", "submit"}
    assert EXACT_COMPONENTS - own <= VERIFIERS.keys()
    spans = [VERIFIERS[name].span for name in EXACT_COMPONENTS - own]
    assert all(span(None) == ValueRange(0.0, 1.0) for span in spans)


def test_a_finished_budget_is_used_or_ends_with_a_failure(tmp_path: Path) -> None:
    """Each sample has 3 of the 6 tokens."""
    folder = written(tmp_path, BUDGET, finished=2.0)
    lost = sample("a", 1).model_copy(update={"outcome": None, "reward": None, "failure": LOST})
    folder.append_samples("sums", [sample("b", 0), sample("b", 1), sample("a", 0), lost])
    assert len(read_evaluation(tmp_path).sets["sums"].samples) == 4

    without_line(2)(folder)
    with pytest.raises(DatasetError, match="its 3 lines lack sample 1 of 'b'"):
        read_evaluation(tmp_path)


def test_a_protocol_with_fewer_fields_keeps_its_digest(tmp_path: Path) -> None:
    """An earlier version wrote its own fields, and their digest."""
    folder = written(tmp_path)
    fields = json.loads((tmp_path / "evaluation.json").read_text())["protocol"]
    fields.pop("option_score")
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
    in_record(protocol=fields, protocol_digest=digest)(folder)
    assert read_evaluation(tmp_path).record.protocol_digest == digest
