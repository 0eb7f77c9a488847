"""Tasks with tags, curricula over them, and a batcher that is played step by step."""

from collections.abc import Callable, Sequence
from typing import Any

from assay_shared.settings.run_file import parse_config
from assay_shared.statistics.interval import Interval
from assay_shared.types import GroupRequest, PolicyVersion, ScoredGroup
from assay_trainer.curriculum.selection import stage_tasks
from assay_trainer.curriculum.staged_order import StagedOrder
from assay_trainer.curriculum.state import Advance, BatcherState
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.batcher import GroupBatcher
from assay_trainer.rollouts.set_aside import SetAside
from tests.support.fakes import make_scored_group, make_task

LEVELS = ("easy", "medium", "hard")
TASKS = [
    make_task(f"{level}{i}", tags={"difficulty": level, "error_type": "AD"[i % 2]})
    for level in LEVELS
    for i in range(6)
]
Rewards = Callable[[GroupRequest], tuple[float, ...]]


def curriculum(*stages: dict[str, Any], **others: Any) -> CurriculumConfig:
    values = {"stages": list(stages)} | others
    return parse_config(CurriculumConfig, values, source="curriculum")


def stage(name: str, *levels: str, **others: Any) -> dict[str, Any]:
    return {"name": name, "where": {"difficulty": list(levels)}} | others


def order_of(
    config: CurriculumConfig, state: BatcherState | None = None, groups_per_step: int = 2
) -> StagedOrder:
    return StagedOrder(
        config,
        stage_tasks(config, TASKS, "training"),
        seed=3,
        groups_per_step=groups_per_step,
        state=None if state is None else state.order,
    )


class InstantRollouts:
    """Plays each request when it is collected, in the order they were sent."""

    def __init__(self, rewards: Rewards) -> None:
        self._rewards = rewards
        self.sent: list[GroupRequest] = []
        self._waiting: list[GroupRequest] = []
        self.version = 1

    @property
    def num_in_flight(self) -> int:
        return len(self._waiting)

    def send(self, request: GroupRequest) -> None:
        self.sent.append(request)
        self._waiting.append(request)

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        if not self._waiting:
            return []
        one = self._waiting.pop(0)
        policy = PolicyVersion(version=self.version, digest=f"d{self.version}")
        return [make_scored_group(one.key, *self._rewards(one), policy=policy, task=one.task)]


class PlayedRun:
    """GRPO's steps without a model: batch, end of the step, next version."""

    def __init__(
        self,
        config: CurriculumConfig,
        *,
        state: BatcherState | None = None,
        step: int = 0,
        rewards: Rewards = lambda _: (1.0, 0.0),
        pass_rate: Callable[[int], Interval] | None = None,
        set_aside: Sequence[str] = (),
        **changes: Any,
    ) -> None:
        values = {"steps": 100, "groups_per_step": 2, "group_size": 2, "max_groups_per_step": 6}
        self.grpo = GRPOConfig.model_validate(values | changes)
        self.order = order_of(config, state, self.grpo.groups_per_step)
        self.rollouts = InstantRollouts(rewards)
        self.step = step
        self.pass_rate = pass_rate
        self.ends: list[tuple[int, Advance]] = []
        self.stages: list[str | None] = []
        self.learnt: list[list[str]] = []
        left_out = SetAside("training", len(TASKS), 0.4, lambda _: None)
        left_out.add_all([(task, "planted") for task in TASKS if task.id in set_aside])
        self.feed = GroupBatcher(
            self.rollouts,  # type: ignore[arg-type]  # of the same shape
            self.order,
            self.grpo,
            run="run",
            seed=3,
            state=state or BatcherState(),
            set_aside=left_out,
        )
        self._serve()

    def _serve(self) -> None:
        self.rollouts.version = self.step + 1
        version = self.step + 1
        self.feed.serve(PolicyVersion(version=version, digest=f"d{version}"))

    def play(self, num_steps: int) -> None:
        for _ in range(num_steps):
            if self.feed.is_over:
                return
            self.stages.append(self.feed.stage)
            batch = self.feed.next_batch()
            self.learnt.append([scored.group.task.id for scored in batch.groups])
            self.step += 1
            is_asked = self.order.is_measured_next and self.pass_rate is not None
            found = self.pass_rate(self.step) if is_asked and self.pass_rate else None
            ended = self.order.finish_step(self.feed.finish_step(self.step), found)
            if ended is not None:
                self.ends.append((self.step, ended))
            self._serve()

    @property
    def draws(self) -> dict[int, str]:
        """Return the tasks that were asked for, by draw."""
        return {int(one.key.split("/")[1]): one.task.id for one in self.rollouts.sent}


def levels_of(ids: list[str]) -> set[str]:
    return {one.rstrip("0123456789") for one in ids}
