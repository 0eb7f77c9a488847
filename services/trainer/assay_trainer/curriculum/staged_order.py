"""The stages of a curriculum as an order of tasks.

Every decision is made at the end of a step, from what is recorded until then, and is part of the
state. So a resumed run samples the same tasks. Only a stage with nothing to teach ends between two
steps: a resumed run samples its tasks again, and ends it again.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from assay_shared.errors import ConfigError
from assay_shared.statistics.interval import Interval
from assay_shared.types import Scored, ScoredGroup, Status, Task
from assay_trainer.curriculum.passes import left_out_of, tasks_of
from assay_trainer.curriculum.selection import StageTasks
from assay_trainer.curriculum.state import Advance, CurriculumState, RecentRate, TaskPass
from assay_trainer.curriculum_config import CurriculumConfig

_KEPT_PASSES = 8
#: What older samples of a task count for, at each new group.
_DECAY = 0.5


@dataclass(frozen=True)
class PlayedTask:
    """A group's task with its numbers of scored and passed samples."""

    task_id: str
    num_passed: int
    num_scored: int

    @classmethod
    def of(cls, scored: ScoredGroup) -> "PlayedTask":
        """Return the numbers of a group; samples without a score are in neither."""
        outcomes = [reward.outcome for reward in scored.rewards if isinstance(reward, Scored)]
        return cls(scored.group.task.id, outcomes.count(Status.ACCEPTED), len(outcomes))


@dataclass(frozen=True)
class FinishedStep:
    """What a step leaves behind: its groups, the next draw, and the draws not learnt yet."""

    step: int
    played: Collection[PlayedTask]
    next_draw: int
    unfinished: Collection[int]


class StagedOrder:
    """Tasks of stage after stage."""

    def __init__(
        self,
        config: CurriculumConfig,
        stages: list[StageTasks],
        *,
        seed: int,
        groups_per_step: int,
        state: CurriculumState | None = None,
    ) -> None:
        state = state or CurriculumState()
        self._config = config
        self._stages = stages
        self._seed = seed
        self._groups_per_step = groups_per_step
        self._sampled, self._learnt = state.sampled, state.learnt
        self._steps_in_stage, self._step = state.steps_in_stage, state.step
        self._passes = list(state.passes)
        self._rates = dict(state.rates)
        self._cached: deque[tuple[TaskPass, list[Task]]] = deque(maxlen=_KEPT_PASSES)

    @property
    def stage(self) -> str | None:
        """Return the name of the stage that is learnt."""
        return None if self.is_over else self._stages[self._learnt].name

    @property
    def is_over(self) -> bool:
        return self._learnt >= len(self._stages)

    @property
    def is_measured_next(self) -> bool:
        """Return True if the stage's end depends on its pass rate after the next step."""
        until = None if self.is_over else self._config.stages[self._learnt].until
        if until is None:
            return False
        steps = self._steps_in_stage + 1
        return until.min_steps <= steps < until.max_steps and steps % until.every == 0

    def has(self, draw: int) -> bool:
        if self.is_over:
            return False
        if self._passes and draw < self._end_of(self._passes[-1]):
            return True
        return self._begin_pass(draw)

    def task(self, draw: int) -> Task:
        one = self._pass_of(draw)
        return self._tasks_of(one)[draw - one.first_draw]

    def finish_step(self, done: FinishedStep, pass_rate: Interval | None) -> Advance | None:
        """Take the end of a step into account, and return the end of a stage if there is one.

        `pass_rate` is the stage's on its held-out tasks, where `is_measured_next` asked for it. A
        step that is in the state already changes nothing.
        """
        if done.step <= self._step or self.is_over:
            return None
        self._step = done.step
        self._steps_in_stage += 1
        for played in done.played:
            self._note(played)
        reason = self._reason_to_end(done, pass_rate)
        ended = None if reason is None else self._end_stage(done.next_draw, reason)
        self._sample_ahead(done)
        return ended

    def skip_stage(self, next_draw: int, reason: str) -> Advance | None:
        """End the learnt stage before its time; return None if no other follows."""
        if self._learnt + 1 >= len(self._stages):
            return None
        return self._end_stage(next_draw, reason)

    def state(self, unfinished: Collection[int]) -> CurriculumState:
        return CurriculumState(
            sampled=self._sampled,
            learnt=self._learnt,
            steps_in_stage=self._steps_in_stage,
            step=self._step,
            passes=tuple(self._needed_passes(unfinished)),
            rates=self._rates,
        )

    def _reason_to_end(self, done: FinishedStep, pass_rate: Interval | None) -> str | None:
        stage, steps = self._config.stages[self._learnt], self._steps_in_stage
        if stage.epochs is not None:
            self.has(done.next_draw)  # begins the next stage's pass if this stage's are sampled
            is_left = any(self._pass_of(draw).stage <= self._learnt for draw in done.unfinished)
            is_sampled = self._sampled > self._learnt
            word = "epoch" if stage.epochs == 1 else "epochs"
            return f"{stage.epochs} {word}" if is_sampled and not is_left else None
        if stage.steps is not None:
            return f"{steps} steps" if steps >= stage.steps else None
        until = stage.until
        assert until is not None
        if pass_rate is not None and steps >= until.min_steps and pass_rate.low >= until.pass_rate:
            return (
                f"held-out pass rate {pass_rate.value:.3f}, at least {pass_rate.low:.3f} "
                f"with {until.confidence:.0%} confidence"
            )
        return f"its most steps, {steps}" if steps >= until.max_steps else None

    def _end_stage(self, next_draw: int, reason: str) -> Advance:
        ended = self._stages[self._learnt].name
        self._learnt += 1
        self._steps_in_stage = 0
        if self._sampled < self._learnt:
            self._sample_stage(self._learnt, next_draw)
        return Advance(ended, self.stage, reason)

    def _sample_ahead(self, done: FinishedStep) -> None:
        """Sample the next stage once the groups under way are enough for the steps left."""
        if self._learnt + 1 >= len(self._stages) or self._sampled != self._learnt:
            return
        steps = self._config.stages[self._learnt].steps
        if steps is None:
            return
        num_wanted = (steps - self._steps_in_stage) * self._groups_per_step
        if len(done.unfinished) >= num_wanted:
            self._sample_stage(self._learnt + 1, done.next_draw)

    def _sample_stage(self, place: int, next_draw: int) -> None:
        self._sampled = place
        if self._passes and self._passes[-1].first_draw == next_draw:
            self._passes.pop()
        if place < len(self._stages):
            self._begin_pass(next_draw)

    def _begin_pass(self, draw: int) -> bool:
        """Begin the next pass with a draw; return False after the last pass of the last stage."""
        last = self._passes[-1] if self._passes else None
        number = last.number + 1 if last is not None and last.stage == self._sampled else 0
        if self._sampled < len(self._stages):
            epochs = self._config.stages[self._sampled].epochs
            if epochs is not None and number >= epochs:
                self._sampled, number = self._sampled + 1, 0
        if self._sampled >= len(self._stages):
            return False
        stage = self._stages[self._sampled]
        left_out = left_out_of(stage, number, self._rates, self._config.pool, self._seed)
        self._passes.append(
            TaskPass(stage=self._sampled, number=number, first_draw=draw, left_out=left_out)
        )
        return True

    def _end_of(self, one: TaskPass) -> int:
        return one.first_draw + len(self._tasks_of(one))

    def _pass_of(self, draw: int) -> TaskPass:
        at = bisect_right(self._passes, draw, key=lambda one: one.first_draw)
        return self._passes[at - 1]

    def _tasks_of(self, one: TaskPass) -> list[Task]:
        for known, tasks in self._cached:
            if known == one:
                return tasks
        tasks = tasks_of(self._stages[one.stage], one, self._seed)
        self._cached.append((one, tasks))
        return tasks

    def _needed_passes(self, unfinished: Collection[int]) -> Iterable[TaskPass]:
        """Return the passes of unfinished draws and all later ones; at least the last one."""
        oldest = min(unfinished, default=None)
        if oldest is None:
            return self._passes[-1:]
        at = bisect_right(self._passes, oldest, key=lambda one: one.first_draw)
        return self._passes[max(0, at - 1) :]

    def _note(self, played: PlayedTask) -> None:
        if not played.num_scored or self._config.pool is None:
            return
        before = self._rates.get(played.task_id, RecentRate(passed=0, scored=0, num_scored=0))
        self._rates[played.task_id] = RecentRate(
            passed=_DECAY * before.passed + played.num_passed,
            scored=_DECAY * before.scored + played.num_scored,
            num_scored=before.num_scored + played.num_scored,
        )


def check_steps(
    config: CurriculumConfig, stages: list[StageTasks], steps: int, groups_per_step: int
) -> None:
    """Refuse GRPO's steps if the stages could need more.

    Raises:
        ConfigError: says how many steps the stages can need.
    """
    most = 0
    for stage, tasks in zip(config.stages, stages, strict=True):
        of_stage = stage.most_steps
        if of_stage is None:
            of_stage = -(-len(tasks.tasks) * (stage.epochs or 0) // groups_per_step)
        most += of_stage
    if steps < most:
        raise ConfigError(
            f"the stages of the curriculum have up to {most} steps, and GRPO ends after {steps}",
            field="grpo.steps",
            hint=f"{most} or more: the last stage ends GRPO",
        )
