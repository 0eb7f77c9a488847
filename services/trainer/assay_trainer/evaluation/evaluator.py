"""Evaluates the policy on held-out tasks, over the same path as training.

A sample without a score enters no estimate, and is counted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from pydantic import BaseModel

from assay_shared.errors import BudgetExceeded
from assay_shared.runs.run_folder import RunFolder
from assay_shared.statistics.interval import Interval
from assay_shared.statistics.paired import difference_interval, mean_over_tasks
from assay_shared.statistics.task_shares import share_interval
from assay_shared.types import (
    Failure,
    FailureClass,
    GroupRequest,
    PolicyVersion,
    Priority,
    Reward,
    Rollout,
    SamplingParams,
    Scored,
    ScoredGroup,
    Status,
    Task,
)
from assay_trainer.config import EvaluationConfig
from assay_trainer.evaluation.pass_at_k import pass_at_k
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.set_aside import SetAside, own_failure
from assay_trainer.weights.versions import sampled_by

_WAIT_S = 0.5
_SEED_STRIDE = 7_368_787


class EvaluationSample(BaseModel):
    """An answer: its text and outcome; no outcome if it could not be scored.

    Of an episode, `text` is the last reply and `turns` are all replies with their observations.
    """

    text: str
    turns: list[tuple[str, str]] = []
    outcome: Status | None
    reward: float | None = None
    failure: str | None = None
    #: Numbers that verifiers noted of the answer, by name; also of an answer without a score.
    measures: dict[str, float] = {}


class TaskResult(BaseModel):
    """The samples of a task."""

    task_id: str
    prompt: str
    tags: dict[str, str]
    samples: list[EvaluationSample]

    @property
    def num_scored(self) -> int:
        return sum(sample.outcome is not None for sample in self.samples)

    @property
    def num_correct(self) -> int:
        return sum(sample.outcome is Status.ACCEPTED for sample in self.samples)


class TaskEvaluation(BaseModel):
    """All samples of an evaluation, and the policy version behind them."""

    name: str
    policy: PolicyVersion
    confidence: float
    results: list[TaskResult]
    #: Tasks that could not be sampled or scored for their own reasons, by id; not in `results`.
    set_aside: dict[str, str] = {}

    def pass_at(self, k: int, results: list[TaskResult] | None = None) -> dict[str, float]:
        """Return each task's pass@k; leave out tasks with fewer than k scored samples."""
        return {
            one.task_id: pass_at_k(one.num_scored, one.num_correct, k)
            for one in (self.results if results is None else results)
            if one.num_scored >= k
        }

    def interval(self, k: int) -> Interval:
        """Return the mean of pass@k over tasks."""
        return self._interval(k, self.results)

    def _interval(self, k: int, some: list[TaskResult]) -> Interval:
        most = max((one.num_scored for one in some), default=1)
        return share_interval(list(self.pass_at(k, some).values()), self.confidence, most)

    def by_tag(self, tag: str) -> dict[str, Interval]:
        """Return pass@1 for each value of a tag."""
        groups: dict[str, list[TaskResult]] = defaultdict(list)
        for result in self.results:
            groups[result.tags.get(tag, "none")].append(result)
        return {
            value: self._interval(1, some)
            for value, some in sorted(groups.items())
            if self.pass_at(1, some)
        }

    def measured(self) -> dict[str, dict[str, float]]:
        """Return each task's mean of the reward and of each noted number, by name and task id."""
        found: dict[str, dict[str, float]] = {}
        for result in self.results:
            values: dict[str, list[float]] = {}
            for sample in result.samples:
                rewards = {} if sample.reward is None else {"reward": sample.reward}
                for name, value in (rewards | sample.measures).items():
                    values.setdefault(name, []).append(value)
            for name, some in values.items():
                found.setdefault(name, {})[result.task_id] = sum(some) / len(some)
        return found

    def outcomes(self) -> Counter[str]:
        """Count the samples by outcome; failures are named `failed`."""
        return Counter(s.outcome or "failed" for one in self.results for s in one.samples)


def difference(before: TaskEvaluation, after: TaskEvaluation, k: int = 1) -> Interval:
    """Return the paired difference of pass@k over the tasks in both evaluations."""
    first, second = before.pass_at(k), after.pass_at(k)
    shared = [task_id for task_id in first if task_id in second]
    return difference_interval(
        [first[one] for one in shared],
        [second[one] for one in shared],
        before.confidence,
        seed=k,
    )


def measured_differences(
    before: TaskEvaluation, after: TaskEvaluation
) -> dict[str, dict[str, Interval]]:
    """Return the means of the reward and of each noted number, and their paired difference.

    A number is left out if no task has it in both evaluations.
    """
    first, second = before.measured(), after.measured()
    found = {}
    for name in sorted(first.keys() & second.keys()):
        shared = [task for task in first[name] if task in second[name]]
        if not shared:
            continue
        old = [first[name][task] for task in shared]
        new = [second[name][task] for task in shared]
        found[name] = {
            "before": mean_over_tasks(old, before.confidence, seed=1),
            "after": mean_over_tasks(new, after.confidence, seed=1),
            "difference": difference_interval(
                old, new, before.confidence, seed=1, span=max(map(abs, [*old, *new])) or 1.0
            ),
        }
    return found


def read_evaluations(folder: RunFolder) -> list[TaskEvaluation]:
    """Return the evaluations of a run, in order."""
    paths = [folder.evaluation(name) for name in ("before", "after")]
    return [TaskEvaluation.model_validate_json(p.read_text()) for p in paths if p.exists()]


class Evaluator:
    """Plays all tasks and keeps the samples. `on_progress` gets the number done and of all."""

    def __init__(
        self,
        rollouts: RolloutDispatcher,
        config: EvaluationConfig,
        *,
        run: str,
        seed: int,
        set_aside: SetAside,
        on_progress: Callable[[int, int], None],
        while_waiting: Callable[[], None],
    ) -> None:
        self._rollouts = rollouts
        self._config = config
        self._run = run
        self._seed = seed
        self._set_aside = set_aside
        self._on_progress = on_progress
        self._while_waiting = while_waiting

    def evaluate(self, name: str, tasks: list[Task], policy: PolicyVersion) -> TaskEvaluation:
        """Sample and score every task under `policy`, except tasks set aside.

        Raises:
            BudgetExceeded: too many groups have no score, or all.
            DatasetError: too many tasks cannot be sampled or scored for their own reasons.
        """
        results = {
            scored.group.task.id: self._result(scored) for scored in self.play(name, tasks, policy)
        }
        kept = [results[task.id] for task in tasks if task not in self._set_aside]
        if not any(one.num_scored for one in kept):
            reasons = (sample.failure for one in kept for sample in one.samples)
            first = next(filter(None, reasons), "see the services' logs")
            raise BudgetExceeded(f"none of {len(kept)} tasks could be scored: {first}")
        return TaskEvaluation(
            name=name,
            policy=policy,
            confidence=self._config.confidence,
            results=kept,
            set_aside=self._set_aside.reasons,
        )

    def play(self, name: str, tasks: list[Task], policy: PolicyVersion) -> Iterator[ScoredGroup]:
        """Yield the group of each task in the order of their ends, except tasks set aside.

        Raises:
            BudgetExceeded: too many groups have no score.
            DatasetError: too many tasks cannot be sampled or scored for their own reasons.
        """
        # A task keeps its index, and so its seed, whatever is set aside before it.
        waiting = [pair for pair in enumerate(tasks) if pair[1] not in self._set_aside][::-1]
        num_all, num_done, num_failed = len(waiting), 0, 0
        while num_done < num_all:
            while waiting and self._rollouts.num_in_flight < self._config.groups_in_flight:
                self._rollouts.send(self._request(name, policy, *waiting.pop()))
            for played in self._rollouts.collect(_WAIT_S):
                scored = only_of(policy, played)
                num_done += 1
                own = own_failure(scored)
                if own is not None:
                    self._set_aside.add(scored.group.task, own.message)
                    continue
                num_failed += not any(isinstance(r, Scored) for r in scored.rewards)
                self._check(scored, num_failed)
                yield scored
            self._on_progress(num_done, num_all)
            self._while_waiting()

    def _request(self, name: str, policy: PolicyVersion, index: int, task: Task) -> GroupRequest:
        config = self._config
        return GroupRequest(
            # With the index: a sample of training tasks may have one twice, across two passes.
            key=f"{self._run}/{name}/{index}/{task.id}/v{policy.version}/{task.rubric}",
            run=self._run,
            priority=Priority.EVALUATION,
            task=task,
            sampling=SamplingParams(
                n=config.samples_per_task,
                max_tokens=config.max_tokens,
                temperature=config.temperature,
                stop=config.stop,
                seed=self._seed * _SEED_STRIDE + index,
            ),
        )

    def _check(self, scored: ScoredGroup, num_failed: int) -> None:
        if num_failed >= self._config.max_failed_groups:
            failure = scored.failure
            raise BudgetExceeded(
                f"{num_failed} tasks could not be scored: "
                f"{failure.message if failure else 'see the services logs'}"
            )

    def _result(self, scored: ScoredGroup) -> TaskResult:
        task = scored.group.task
        samples = [
            _sample(rollout, reward)
            for rollout, reward in zip(scored.group.rollouts, scored.rewards, strict=False)
        ]
        if scored.failure is not None:
            lost = EvaluationSample(text="", outcome=None, failure=scored.failure.message)
            samples = [lost] * self._config.samples_per_task
        return TaskResult(task_id=task.id, prompt=task.prompt, tags=task.tags, samples=samples)


def only_of(policy: PolicyVersion, scored: ScoredGroup) -> ScoredGroup:
    """Return the group, or a failed group if other weights sampled part of it."""
    others = sampled_by(scored) - {policy}
    if not others:
        return scored
    failure = Failure(
        failure_class=FailureClass.INTERNAL,
        service="inference",
        message=f"sampled by version {min(one.version for one in others)} "
        f"where version {policy.version} is measured",
        retryable=True,
    )
    return scored.model_copy(update={"rewards": (), "failure": failure})


def _sample(rollout: Rollout, reward: Reward) -> EvaluationSample:
    turns = [(turn.text, turn.observation) for turn in rollout.turns]
    if isinstance(reward, Scored):
        return EvaluationSample(
            text=rollout.text,
            turns=turns,
            outcome=reward.outcome,
            reward=reward.value,
            measures=reward.measures,
        )
    return EvaluationSample(
        text=rollout.text,
        turns=turns,
        outcome=None,
        failure=reward.failure.message,
        measures=reward.measures,
    )
