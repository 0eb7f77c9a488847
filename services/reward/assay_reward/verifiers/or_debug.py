"""Rewards of replayed model-repair episodes. A missing solver verdict is a failure, not a 0."""

from typing import Literal

from pydantic import Field

from assay_reward.environment_task import played_in
from assay_reward.or_debug.dataset.tasks import ENVIRONMENT
from assay_reward.or_debug.episode.metrics import EpisodeMetrics
from assay_reward.or_debug.episode.rewards import (
    OUTCOME_OPTIMAL,
    OUTCOME_OTHERWISE,
    QUICK_REWARD,
    diagnosis_reward,
    efficiency_reward,
    outcome_reward,
)
from assay_reward.verifiers.verifier import (
    AnswerContext,
    Measurement,
    NoOptions,
    ValueRange,
    Verifier,
)
from assay_shared.settings.run_file import Config
from assay_shared.types import Status, Task


class DiagnosisOptions(Config):
    """The truth for a diagnosis, and the measure of agreement with it."""

    against: Literal["root_cause", "iis"] = "root_cause"
    measure: Literal["recall", "precision", "jaccard"] = "jaccard"


class TurnOptions(Config):
    """Limit of counted replies: later replies cost no more, so the reward has a lowest value."""

    max_turns: int = Field(default=10, ge=1, le=64)


def _is_played(task: Task, options: object) -> None:
    played_in(task, ENVIRONMENT)


async def episode(candidate: AnswerContext) -> EpisodeMetrics:
    """Return the metrics of the answer's episode.

    Raises:
        InvalidInput: the instance cannot be read, or turns follow the end of the episode.
        TimedOut, SolverFault: the solver gave no verdict.
    """
    played = played_in(candidate.task, ENVIRONMENT)
    return await candidate.instruments.players.measure(played, candidate.turns)


def _measured(metrics: EpisodeMetrics, value: float, detail: str = "") -> Measurement:
    outcome = Status.ACCEPTED if metrics.faithful else Status.WRONG_ANSWER
    return Measurement(value, outcome, detail)


async def _outcome(candidate: AnswerContext, options: NoOptions) -> Measurement:
    """Return 100 if the model is optimal in the end, else -50."""
    metrics = await candidate.once(episode)
    return _measured(metrics, outcome_reward(metrics.optimal))


async def _seed_diagnosis(candidate: AnswerContext, options: NoOptions) -> Measurement:
    """Return 20 DA, with DA the recall of the stored irreducible set."""
    metrics = await candidate.once(episode)
    return _measured(metrics, diagnosis_reward(metrics.diagnosis_iis.recall))


async def _steps(candidate: AnswerContext, options: TurnOptions) -> Measurement:
    """Return 10, 5 or a growing cost, by the number of replies."""
    metrics = await candidate.once(episode)
    value = efficiency_reward(min(metrics.steps, options.max_turns))
    return _measured(metrics, value, f"{metrics.steps} replies")


async def _faithful(candidate: AnswerContext, options: NoOptions) -> Measurement:
    """Return 1 for a faithful recovery, else 0."""
    metrics = await candidate.once(episode)
    detail = (
        f"optimal {metrics.optimal}, OP {metrics.optimality_preservation:.3f}, rows kept "
        f"{metrics.rows_kept:.2f}, diagnosis precision {metrics.diagnosis.precision:.2f}"
    )
    return _measured(metrics, float(metrics.faithful), detail)


async def _preservation(candidate: AnswerContext, options: NoOptions) -> Measurement:
    """Return optimality preservation times the kept shares of rows and bounds; 0 if not optimal."""
    metrics = await candidate.once(episode)
    kept = metrics.rows_kept * metrics.bounds_kept
    return _measured(metrics, metrics.optimality_preservation * kept)


async def _diagnosis(candidate: AnswerContext, options: DiagnosisOptions) -> Measurement:
    """Return the agreement of the submitted names with the truth."""
    metrics = await candidate.once(episode)
    truth = metrics.diagnosis if options.against == "root_cause" else metrics.diagnosis_iis
    return _measured(metrics, float(getattr(truth, options.measure)))


async def _quick(candidate: AnswerContext, options: TurnOptions) -> Measurement:
    """Return the share of replies not needed for a faithful recovery; 0 if not faithful."""
    metrics = await candidate.once(episode)
    left = max(0, options.max_turns - metrics.steps) / max(1, options.max_turns - 1)
    return _measured(metrics, float(metrics.faithful) * min(1.0, left))


def _steps_span(options: TurnOptions) -> ValueRange:
    return ValueRange(efficiency_reward(options.max_turns), QUICK_REWARD)


OUTCOME = Verifier(
    _outcome, NoOptions, _is_played, lambda _: ValueRange(OUTCOME_OTHERWISE, OUTCOME_OPTIMAL)
)
SEED_DIAGNOSIS = Verifier(
    _seed_diagnosis, NoOptions, _is_played, lambda _: ValueRange(0.0, diagnosis_reward(1.0))
)
STEPS = Verifier(_steps, TurnOptions, _is_played, _steps_span)
FAITHFUL = Verifier(_faithful, NoOptions, _is_played)
PRESERVATION = Verifier(_preservation, NoOptions, _is_played)
DIAGNOSIS = Verifier(_diagnosis, DiagnosisOptions, _is_played)
QUICK = Verifier(_quick, TurnOptions, _is_played)
