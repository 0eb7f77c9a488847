"""The data of a run's events, by kind; see `assay_shared.runs.run_folder.Event`."""

import math
from collections.abc import Iterable

from pydantic import BaseModel, Field

from assay_shared.runs.run_folder import Event
from assay_shared.statistics.interval import Interval


class StageStarted(BaseModel):
    """stage_started: `num_steps` is 0 for a stage without steps."""

    stage: str
    num_steps: int
    #: GPUs of the trainer's own processes; null in events of older versions.
    num_gpus: int | None = None


class StageFinished(BaseModel):
    """stage_finished"""

    stage: str
    took_s: float


class ProgressEvent(BaseModel):
    """progress: units of work done in a stage that has no events for them."""

    stage: str
    done: int


class DataOpened(BaseModel):
    """data: numbers of tasks and pairs; the SHA-256 of each set's rows, by its field."""

    num_train: int
    num_held_out: int
    num_preferences: int = 0
    digests: dict[str, str] = {}


class LeaksChecked(BaseModel):
    """leaks_checked: held-out tasks found among the training tasks, and planted ones found.

    The other fields are counts by part and method; leaks.json has each finding.
    """

    num_leaked: int
    num_held_out: int
    num_controls: int = 0


class ChannelChecked(BaseModel):
    """channel_checked: rows of a stage (GRPO: tasks), and those with control tokens."""

    stage: str
    num_rows: int
    num_unclean: int


class TaskSetAside(BaseModel):
    """task_set_aside: a task left out of a set (training, held-out, demonstrations)."""

    set: str
    task: str
    reason: str


class CheckpointRefused(BaseModel):
    """checkpoint_refused: a damaged checkpoint, and its new folder."""

    stage: str
    folder: str
    reason: str


class Resumed(BaseModel):
    """resumed: a stage resumes after `step`; earlier events of later steps no longer count."""

    stage: str
    step: int
    #: Groups of rollouts.jsonl that were marked as superseded.
    num_superseded: int = 0


class Mismatch(BaseModel):
    """The engine's log-probabilities of tokens against the trainer's under the same weights.

    `kl_k1_nats` and `kl_k3_nats` estimate KL(engine || trainer); see
    `assay_trainer.learner.mismatch`.
    """

    num_tokens: int
    mean_abs_nats: float
    max_abs_nats: float
    kl_k1_nats: float
    kl_k3_nats: float


class StepEvent(BaseModel):
    """step: a GRPO update, and the groups collected for it.

    Reward and pass rate cover all scored samples of the groups, trained on or not; samples without
    a score count only in `failures`, and samples of unknown weights only in `refused`.
    """

    step: int
    version: int
    reward: float | None
    pass_rate: float | None
    num_groups: int
    num_played: int
    num_without_signal: int
    #: Groups asked for since the process began or resumed, and those in no batch yet, if known.
    num_asked: int | None = None
    num_in_flight: int | None = None
    #: Groups of this step's earlier batches: all were flat, and none is in another sum.
    num_flat_before: int = 0
    #: Samples with an answer, of all played groups; null in events of older versions.
    num_generated: int | None = None
    #: Samples whose tokens the update learnt; null in events of older versions.
    num_trained: int | None = None
    #: Tokens of judges and their price, of all played groups; null in events of older versions.
    judge_tokens: int | None = None
    judge_money: float | None = None
    #: Groups whose task was set aside.
    num_set_aside: int = 0
    #: Groups by why they were refused: too_old, unknown_version.
    refused: dict[str, int] = {}
    failures: dict[str, int]
    outcomes: dict[str, int]
    #: Means of the numbers that verifiers noted of samples, scored or not, by name.
    measures: dict[str, float] = {}
    #: Groups by the domain of their task, else by its dataset: played, and trained on.
    played_by_domain: dict[str, int] = {}
    trained_by_domain: dict[str, int] = {}
    staleness_mean: float | None
    groups_per_s: float
    step_s: float
    rollouts_s: float
    publish_s: float
    update_s: float
    #: The wait for the checkpoint before and the copy of this step's; 0 without a checkpoint.
    checkpoint_wait_s: float = 0.0
    #: From the copy until a checkpoint was whole, of the one that became whole since the last step.
    checkpoint_write_s: float | None = None
    loss: float
    grad_norm: float
    entropy: float
    #: Mean of the tokens' KL to the reference policy, by `grpo.kl_estimator`; 0 without one.
    kl: float = 0.0
    #: Shares of the tokens whose gradient a bound of the ratio takes away.
    clipped_low: float = 0.0
    clipped_high: float = 0.0
    #: Absolute share of the KL term in the gradient by the log-probabilities; null without one.
    kl_gradient_share: float | None = None
    #: Share of the tokens that the correction leaves out of the gradient.
    masked_share: float = 0.0
    #: Share of the tokens whose importance weight is cut to its bound.
    truncated_weight_share: float = 0.0
    #: Mean importance weight of the tokens, before bounds; null without a correction.
    importance_weight_mean: float | None = None
    #: Coefficient of variation of the tokens' weights: 0 where all tokens weigh the same.
    token_weight_spread: float | None = None
    #: Groups without signal whose places other groups took.
    num_replaced: int = 0
    #: Scored samples that reached the length limit, or its soft zone; see `grpo.overlong`.
    num_overlong: int = 0
    #: Variance of the rewards of a group's samples (n - 1), averaged over the scored groups.
    reward_variance: float | None = None
    #: The stage of the curriculum; null without one.
    curriculum_stage: str | None = None
    learning_rate: float = 0.0
    #: Share of the weights that the update changed, in float32.
    moved_share: float | None = None
    #: Tokens of the trained sequences, prompts included, and of them a second of the update.
    num_tokens: int = 0
    tokens_per_s: float = 0.0
    #: Share of the GPUs' peak that the update uses; null on a CPU or an unknown GPU.
    mfu: float | None = None
    #: Tokens of a sampled answer, and the share of answers cut off at their limit.
    length_mean: float | None = None
    #: The same of groups refused as too old: a greater mean tells of a bias against long answers.
    dropped_length_mean: float | None = None
    length_max: int | None = None
    truncated_share: float | None = None
    #: The most GPU memory in use since it last ran out; null without a GPU.
    memory_bytes: int | None = None
    #: Layers with gradient checkpointing.
    recomputed_layers: int = 0
    #: Null where no token of the trainer's own version was at hand.
    mismatch: Mismatch | None = None


class _Numbered(BaseModel):
    """A step of a stage; every kind of step has more."""

    step: int


class GivenRowsStep(_Numbered):
    """An update on rows that are given, not sampled."""

    #: Passes over the rows so far.
    epoch: float
    loss: float
    learning_rate: float
    #: Of the whole gradient, before it is clipped.
    grad_norm: float
    #: The most GPU memory in use so far; null without a GPU.
    memory_bytes: int | None = None


class SFTStep(GivenRowsStep):
    """sft_step: `loss` is the mean over the update's learnt tokens, in nats."""

    #: The same over the held-out rows after the update; null where it was not measured.
    validation_loss: float | None = None


class DPOStep(GivenRowsStep):
    """dpo_step: means over the update's pairs, with the weights before the update."""

    #: Reward of the chosen answer minus reward of the rejected answer.
    margin: float
    #: Share of the pairs with a positive margin.
    accuracy: float


class DPOMeasured(BaseModel):
    """dpo_measured: the held-out pairs, before and after DPO.

    Shares have Wilson's intervals of 95%.
    """

    name: str
    num_pairs: int
    margin: float
    #: Share of the pairs with a positive margin; a margin of 0, as before training, counts half.
    win_rate: Interval
    #: Share of the pairs whose chosen answer has the higher log-probability.
    logprob_win_rate: Interval
    #: The mean margin with its normal interval over pairs; null of one pair.
    margin_interval: Interval | None = None
    #: Of each pair: its margin, and how much likelier the chosen answer is, in nats. Not stored.
    margins: tuple[float, ...] = Field(default=(), exclude=True)
    preferred: tuple[float, ...] = Field(default=(), exclude=True)


class SignalChecked(BaseModel):
    """signal_checked: groups sampled before GRPO; with signal, rewards are unequal."""

    num_groups: int
    num_with_signal: int
    #: Share of the groups with signal, with its 95% Wilson interval.
    share: Interval
    #: Share of the scored samples that are accepted.
    pass_rate: float


class CurriculumAdvanced(BaseModel):
    """curriculum_advanced: a stage ended after `step`; `to` is null after the last one."""

    step: int
    ended: str
    to: str | None
    reason: str


class CurriculumMeasured(BaseModel):
    """curriculum_measured: the held-out tasks of a stage after `step`, in the stage `learnt`."""

    step: int
    learnt: str
    stage: str
    num_tasks: int
    #: Mean of the tasks' shares of accepted samples, with Wilson's interval over tasks.
    pass_rate: Interval


class TrackerDropped(BaseModel):
    """tracker_dropped: a tracker that failed; the run continues without it."""

    tracker: str
    message: str


class GRPOEndedEarly(BaseModel):
    """grpo_ended_early: a whole step's groups taught nothing."""

    message: str


class Evaluated(BaseModel):
    """evaluated: pass@k by k."""

    name: str
    pass_at: dict[int, Interval]
    outcomes: dict[str, int]


class TierEvaluated(BaseModel):
    """tier_evaluated: the result of a set of a tier; `step` is null at the end of the run."""

    tier: str
    set: str
    stage: str
    step: int | None
    #: The protocol's own number; null if nothing was scored.
    result: Interval | None
    num_failed: int
    #: The evaluation's folder, from the run's.
    folder: str


class SetOpened(BaseModel):
    """test_set_opened: a set of an `end` tier with rows for tests is first measured."""

    tier: str
    set: str
    num_tasks: int


class BestCheckpointUsed(BaseModel):
    """best_checkpoint_used: the stage's model is that of its best checkpoint."""

    stage: str
    step: int
    set: str
    metric: str
    value: float


class RunEnded(BaseModel):
    """run_finished (with `report`, and the `gain` in pass@1 from the first evaluation to the last),
    run_failed and run_stopped (with `message`; after an unexpected error, `traceback` names a file
    in the run's folder).
    """

    report: str | None = None
    gain: Interval | None = None
    message: str | None = None
    traceback: str | None = None


KINDS: dict[str, type[BaseModel]] = {
    "stage_started": StageStarted,
    "stage_finished": StageFinished,
    "progress": ProgressEvent,
    "data": DataOpened,
    "leaks_checked": LeaksChecked,
    "channel_checked": ChannelChecked,
    "step": StepEvent,
    "sft_step": SFTStep,
    "dpo_step": DPOStep,
    "dpo_measured": DPOMeasured,
    "resumed": Resumed,
    "task_set_aside": TaskSetAside,
    "checkpoint_refused": CheckpointRefused,
    "signal_checked": SignalChecked,
    "curriculum_advanced": CurriculumAdvanced,
    "curriculum_measured": CurriculumMeasured,
    "tracker_dropped": TrackerDropped,
    "grpo_ended_early": GRPOEndedEarly,
    "evaluated": Evaluated,
    "tier_evaluated": TierEvaluated,
    "test_set_opened": SetOpened,
    "best_checkpoint_used": BestCheckpointUsed,
    "run_finished": RunEnded,
    "run_failed": RunEnded,
    "run_stopped": RunEnded,
}


#: The stage whose steps are events of a kind.
STAGES = {"step": "grpo", "sft_step": "sft", "dpo_step": "dpo"}
#: Kinds that a resume supersedes as it does steps.
_NUMBERED = STAGES | {"curriculum_advanced": "grpo", "curriculum_measured": "grpo"}


def content(event: Event) -> BaseModel | None:
    """Return the event's data as its kind's type; None for kinds without a type."""
    kind = KINDS.get(event.kind)
    return None if kind is None else kind.model_validate(event.data)


def living(events: Iterable[Event]) -> list[Event]:
    """Return the events without the steps superseded by a resume."""
    newest_first = []
    last_step: dict[str, float] = dict.fromkeys(STAGES.values(), math.inf)
    for event in reversed(list(events)):
        if event.kind == "resumed":
            resumed = Resumed.model_validate(event.data)
            last_step[resumed.stage] = min(last_step[resumed.stage], resumed.step)
        stage = _NUMBERED.get(event.kind)
        if stage is None or _Numbered.model_validate(event.data).step <= last_step[stage]:
            newest_first.append(event)
    return newest_first[::-1]
