"""Groups of answers to one task, on their way through the queue."""

from assay_shared.types.failure import Failure
from assay_shared.types.generation import Completion, Priority, SamplingParams
from assay_shared.types.reward import Normalisation, Reward
from assay_shared.types.task import Task
from assay_shared.types.wire import Wire


class Group(Wire):
    """All completions of one task, as inference returned them."""

    key: str
    task: Task
    prompt_token_ids: tuple[int, ...] = ()
    completions: tuple[Completion, ...]


class GroupRequest(Wire):
    """A unit of rollout work. `key` says what it is: the same key is never counted twice."""

    key: str
    run: str
    task: Task
    sampling: SamplingParams
    priority: Priority = Priority.TRAINING


class ScoredGroup(Wire):
    """What a rollout worker stores once per key: a group with its rewards, or why there is none."""

    group: Group
    rewards: tuple[Reward, ...] = ()
    scorer: str = ""
    normalise: Normalisation = Normalisation.GROUP
    failure: Failure | None = None
    worker: str
    generate_time_s: float = 0.0
    score_time_s: float = 0.0
