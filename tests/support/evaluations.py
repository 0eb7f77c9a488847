"""Stored evaluations of made-up policies."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from assay_shared.types import Failure, FailureClass, Message, Role, Status
from assay_trainer.evaluation.records.evaluation_record import (
    EvaluatedPolicy,
    EvaluatedSet,
    EvaluationRecord,
)
from assay_trainer.evaluation.records.folder import EvaluationFolder
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask, SampleRecord

#: The outcomes of a task's samples; None is a failure.
Outcomes = Sequence[Status | None]
GREEDY = Protocol()
RIGHT, WRONG = Status.ACCEPTED, Status.WRONG_ANSWER
PLANTED = Failure(
    failure_class=FailureClass.SANDBOX, service="sandbox", message="planted", retryable=True
)


def sampled(num: int, k: tuple[int, ...] = (1,), seed: int = 0) -> Protocol:
    return Protocol(
        kind=ProtocolKind.SAMPLED, samples_per_task=num, k=k, temperature=1.0, seed=seed
    )


def make_sample(task_id: str, index: int, outcome: Status | None, **values: object) -> SampleRecord:
    known: dict[str, object] = {
        "task_id": task_id,
        "index": index,
        "text": f"answer {index} of {task_id}: {outcome}",
        "num_tokens": 100,
        "truncated": False,
        "outcome": outcome,
        "reward": None if outcome is None else float(outcome is RIGHT),
        "sandbox_cpu_s": 0.5,
        "pass_ratio": None if outcome is None else float(outcome is RIGHT),
        "failure": PLANTED if outcome is None else None,
    }
    return SampleRecord.model_validate(known | values)


def make_answer(task_id: str, index: int, outcome: Status | None, **values: object) -> SampleRecord:
    """Return a sample that is not a program."""
    return make_sample(task_id, index, outcome, pass_ratio=None, **values)


def write_evaluation(
    path: Path,
    sets: Mapping[str, Mapping[str, Outcomes]],
    *,
    protocol: Protocol = GREEDY,
    digest: str | None = None,
    engine: Mapping[str, str] | None = None,
    scorers: tuple[str, ...] = ("code@1",),
    set_digest: str = "5" * 64,
    prompt: Callable[[str], str] = "Solve {}.".format,
    sample: Callable[..., SampleRecord] = make_sample,
    tags: Callable[[str], dict[str, str]] = lambda _: {},
    role: Role = Role.TEST,
    history: tuple[Message, ...] | None = (),
) -> Path:
    """Write an evaluation whose policy's digest is made of its name; return its folder.

    It is finished if each task has the protocol's number of samples.
    """
    folder = EvaluationFolder(path)
    facts = [
        EvaluatedSet(
            name=one,
            source=one,
            roles={role: len(tasks)},
            num_tasks=len(tasks),
            digest=set_digest,
            scorers=scorers,
        )
        for one, tasks in sets.items()
    ]
    num = protocol.samples_per_task
    is_whole = all(len(one) >= num for tasks in sets.values() for one in tasks.values())
    folder.write_record(
        EvaluationRecord(
            name=path.name,
            policy=EvaluatedPolicy(
                kind="folder",
                name=f"models/{path.name}",
                digest=digest or path.name.encode().hex().ljust(64, "0")[:64],
            ),
            protocol=protocol,
            protocol_digest=protocol.digest,
            sets=tuple(facts),
            engine=dict(engine or {"kind": "vllm", "dtype": "bfloat16"}),
            started=1.0,
            finished=2.0 if is_whole else None,
        )
    )
    for one, tasks in sets.items():
        folder.write_tasks(
            one,
            [
                EvaluatedTask(
                    id=id_,
                    dataset=one,
                    role=role,
                    prompt=prompt(id_),
                    tags=tags(id_),
                    history=history,
                )
                for id_ in tasks
            ],
        )
        folder.append_samples(
            one,
            [
                sample(id_, index, outcome)
                for id_, outcomes in tasks.items()
                for index, outcome in enumerate(outcomes)
            ],
        )
    return path


def answers(
    rng: np.random.Generator, abilities: Sequence[float], num: int = 1
) -> dict[str, list[Status | None]]:
    """Return `num` answers to each task, right with the task's chance."""
    return {
        f"t{i}": [RIGHT if rng.random() < chance else WRONG for _ in range(num)]
        for i, chance in enumerate(abilities)
    }
