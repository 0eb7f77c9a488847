"""evaluation.json of a stored evaluation: policy, protocol and sets."""

from typing import Literal

from pydantic import ConfigDict, NonNegativeFloat

from assay_shared.types import Role
from assay_shared.types.wire import Wire
from assay_trainer.evaluation.records.protocol import Protocol


class EvaluatedPolicy(Wire):
    """The policy that was evaluated."""

    kind: Literal["folder", "run", "hub", "server", "answers"]
    #: As it was given: a path, RUN and its stage or step, owner/name, or an address with a model.
    name: str
    #: SHA-256 of the weights; null of a server, which cannot prove them.
    digest: str | None = None
    #: Updates that the policy had when it was evaluated, if a run names them.
    step: int | None = None
    #: The hub's commit.
    revision: str | None = None


class EvaluatedSet(Wire):
    """A set of tasks, in the folder of its name."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: str
    #: As it was given.
    source: str
    roles: dict[Role, int]
    num_tasks: int
    #: SHA-256 of the tasks as they were read, in their order.
    digest: str
    #: SHA-256 of tasks.jsonl; null until that file is written.
    stored_digest: str | None = None
    #: Of a random subset: its size, which was asked for.
    limit: int | None = None
    #: The seed of that subset.
    limit_seed: int | None = None
    #: Rows for training that were left out.
    num_train_left_out: int = 0
    #: When a set with rows for tests alone was first opened, in seconds since 1970.
    test_only_opened: float | None = None
    #: Seconds in which samples were generated and scored, all attempts together.
    played_s: NonNegativeFloat = 0.0
    #: Rubrics with the hash of all that they compute, as the reward service names them.
    scorers: tuple[str, ...] = ()


class EvaluationRecord(Wire):
    """evaluation.json: what was measured, and how."""

    form: Literal[1] = 1
    name: str
    policy: EvaluatedPolicy
    protocol: Protocol
    protocol_digest: str
    sets: tuple[EvaluatedSet, ...]
    #: The engine and the settings that can move a number, as far as they are known.
    engine: dict[str, str] = {}
    versions: dict[str, str] = {}
    started: float
    #: Null while samples are missing.
    finished: float | None = None
