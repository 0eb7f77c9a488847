"""What the events of a run say, kind by kind; see `assay_shared.run_folder.Event`."""

from pydantic import BaseModel

from assay_shared.run_folder import Event
from assay_trainer.interval import Interval


class StageStarted(BaseModel):
    """stage_started: `num_steps` is 0 where a stage has no steps to count."""

    stage: str
    num_steps: int


class StageFinished(BaseModel):
    """stage_finished"""

    stage: str
    took_s: float


class Progress(BaseModel):
    """progress: steps or tasks done in a stage."""

    stage: str
    done: int
    loss: float | None = None


class Mismatch(BaseModel):
    """The engine's log-probabilities of tokens against the trainer's under the same weights.

    `kl_k1_nats` and `kl_k3_nats` estimate KL(engine || trainer); see `assay_trainer.mismatch`.
    """

    num_tokens: int
    mean_abs_nats: float
    max_abs_nats: float
    kl_k1_nats: float
    kl_k3_nats: float


class Step(BaseModel):
    """step: one GRPO update, and the groups that were played for it.

    Reward and pass rate are over all scored samples of the groups played, whether they were
    trained on or not; samples without a score are in `failures` alone, and those of weights that
    this run never published in `refused`.
    """

    step: int
    version: int
    reward: float | None
    pass_rate: float | None
    num_groups: int
    num_played: int
    num_without_signal: int
    #: Groups by why they were refused: too_old, unknown_version.
    refused: dict[str, int] = {}
    failures: dict[str, int]
    outcomes: dict[str, int]
    staleness_mean: float | None
    groups_per_s: float
    step_s: float
    rollouts_s: float
    publish_s: float
    update_s: float
    loss: float
    grad_norm: float
    entropy: float
    clip_fraction: float
    #: Null where no token of the trainer's own version was at hand.
    mismatch: Mismatch | None = None


class GRPOEndedEarly(BaseModel):
    """grpo_ended_early: a whole step's groups taught nothing."""

    message: str


class Evaluated(BaseModel):
    """evaluated: pass@k by k."""

    name: str
    pass_at: dict[int, Interval]
    outcomes: dict[str, int]


class Ended(BaseModel):
    """run_finished (with `report`, and the `gain` in pass@1 from the first evaluation to the last),
    run_failed and run_stopped (with `message`).
    """

    report: str | None = None
    gain: Interval | None = None
    message: str | None = None


KINDS: dict[str, type[BaseModel]] = {
    "stage_started": StageStarted,
    "stage_finished": StageFinished,
    "progress": Progress,
    "step": Step,
    "grpo_ended_early": GRPOEndedEarly,
    "evaluated": Evaluated,
    "run_finished": Ended,
    "run_failed": Ended,
    "run_stopped": Ended,
}


def content(event: Event) -> BaseModel | None:
    """The event's data as its kind's type; None for kinds that only leave a trace."""
    kind = KINDS.get(event.kind)
    return None if kind is None else kind.model_validate(event.data)
