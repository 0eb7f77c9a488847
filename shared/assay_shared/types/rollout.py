"""Groups of answers to a task, as the queue carries them."""

from assay_shared.types.failure import Failure
from assay_shared.types.generation import Completion, Priority, SamplingParams
from assay_shared.types.reward import Reward
from assay_shared.types.task import Task
from assay_shared.types.wire import Wire


class Group(Wire):
    """All completions of a task, as inference returned them."""

    key: str
    task: Task
    prompt_token_ids: tuple[int, ...] = ()
    completions: tuple[Completion, ...]


class GroupRequest(Wire):
    """A unit of rollout work. `key` identifies it: the same key is never counted twice."""

    key: str
    run: str
    task: Task
    sampling: SamplingParams
    priority: Priority = Priority.TRAINING


class ScoredGroup(Wire):
    """A group with its rewards, or with its failure; a rollout worker stores it once per key."""

    group: Group
    rewards: tuple[Reward, ...] = ()
    scorer: str = ""
    failure: Failure | None = None
    worker: str
    generate_time_s: float = 0.0
    score_time_s: float = 0.0
