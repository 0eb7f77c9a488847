"""A sample of groups before GRPO: how many of them have signal, which means unequal rewards.

A policy that solves no task, or every task, gives GRPO nothing to learn from.
"""

from dataclasses import dataclass, field

from assay_shared.errors import BudgetExceeded, ConfigError
from assay_shared.runs.run_folder import write_atomically
from assay_shared.statistics.interval import wilson_interval
from assay_shared.types import PolicyVersion, Scored, ScoredGroup, Status, Task
from assay_trainer.config import EvaluationConfig
from assay_trainer.curriculum.order import TaskOrder
from assay_trainer.evaluation.evaluator import Evaluator
from assay_trainer.events import SignalChecked
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.advantage import group_rewards
from assay_trainer.learner.normalisation.overlong import Overlong
from assay_trainer.pipeline.parts import Parts
from assay_trainer.pipeline.policy import Policy
from assay_trainer.pipeline.run_sets import training_stages

#: GRPO is refused below this share of groups with signal, or above this pass rate.
LEAST_SHARE, MOST_PASSED = 0.02, 0.95
#: From 189 groups without signal on, the upper bound of the share is below `LEAST_SHARE`.
MOST_GROUPS = 192
_CONFIDENCE = 0.95


@dataclass
class SignalSample:
    """Groups of a policy's own answers to training tasks."""

    config: GRPOConfig
    num_wanted: int
    groups: list[ScoredGroup] = field(default_factory=list)

    @property
    def num_with_signal(self) -> int:
        normalise, overlong = self.config.normalise, Overlong.of(self.config)
        return sum(group_rewards(one, normalise, overlong).has_signal for one in self.groups)

    @property
    def is_decided(self) -> bool:
        """Return True if more groups cannot lead to another decision."""
        if len(self.groups) < self.num_wanted:
            return False
        return bool(self.num_with_signal) or self.result().pass_rate > MOST_PASSED

    def result(self) -> SignalChecked:
        """Return the sample's figures.

        Raises:
            BudgetExceeded: no group has a score.
        """
        rewards = [r for one in self.groups for r in one.rewards if isinstance(r, Scored)]
        if not rewards:
            raise BudgetExceeded("no group of the sample has a score")
        num_groups, num_with_signal = len(self.groups), self.num_with_signal
        return SignalChecked(
            num_groups=num_groups,
            num_with_signal=num_with_signal,
            share=wilson_interval(num_with_signal, num_groups, _CONFIDENCE),
            pass_rate=sum(r.outcome is Status.ACCEPTED for r in rewards) / len(rewards),
        )


def sample_signal(
    parts: Parts, served: PolicyVersion, config: GRPOConfig, num_groups: int, most: int
) -> SignalSample:
    """Play `num_groups` groups as GRPO would, and up to `most` while none has signal.

    Raises:
        BudgetExceeded: too many groups have no score.
        DatasetError: too many tasks cannot be sampled or scored for their own reasons.
    """
    run, train = parts.run, parts.sets.train
    tasks = first_tasks(parts)
    order, size = TaskOrder(tasks, run.config.seed), min(num_groups, len(tasks))
    sample = SignalSample(config, num_groups)

    def report(num_done: int, num_all: int) -> None:
        run.set_status(step=min(num_groups, start + num_done))

    for start in range(0, most, size):
        if sample.is_decided:
            break
        evaluator = Evaluator(
            parts.dispatcher(config.group_timeout_s, config.group_attempts),
            _sampling(config),
            run=run.name,
            seed=run.config.seed + start,
            set_aside=train.set_aside,
            on_progress=report,
            while_waiting=parts.while_waiting,
        )
        drawn = [order.task(draw) for draw in range(start, min(start + size, most))]
        played = evaluator.play(f"signal-{start}", drawn, served)
        sample.groups += [one for one in played if _has_score(one)]
    return sample


def first_tasks(parts: Parts) -> list[Task]:
    """Return the usable tasks that GRPO begins with: of the first stage of a curriculum."""
    train, stages = parts.sets.train, training_stages(parts.run, parts.sets)
    if not stages:
        return train.usable.tasks
    return [task for task in stages[0].tasks if task not in train.set_aside]


def _has_score(scored: ScoredGroup) -> bool:
    return any(isinstance(reward, Scored) for reward in scored.rewards)


def _sampling(config: GRPOConfig) -> EvaluationConfig:
    """Return GRPO's own sampling, with as many groups in flight."""
    return EvaluationConfig(
        samples_per_task=config.group_size,
        k=(1,),
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        stop=config.stop,
        groups_in_flight=config.groups_per_step * (config.max_staleness + 1),
        group_timeout_s=config.group_timeout_s,
        group_attempts=config.group_attempts,
        max_failed_groups=config.max_failed_groups,
    )


def check_signal(parts: Parts, policy: Policy, config: GRPOConfig) -> None:
    """Sample groups before GRPO, once per run, and refuse a policy that can learn nothing.

    Raises:
        ConfigError: next to no group has signal, or next to every answer passes.
    """
    wanted, run = config.signal_check, parts.run
    if wanted is None:
        return
    path = run.folder.path / "signal.json"
    if path.exists():
        found = SignalChecked.model_validate_json(path.read_text())
    else:
        with run.stage("signal", wanted.num_groups):
            served = parts.serve(policy)
            found = sample_signal(parts, served, config, wanted.num_groups, MOST_GROUPS).result()
            write_atomically(path, found.model_dump_json(indent=1))
            run.record("signal_checked", **found.model_dump(mode="json"))
    reason = refusal(found)
    if reason is not None and wanted.required:
        raise reason


def refusal(found: SignalChecked) -> ConfigError | None:
    """Return why GRPO cannot learn from groups like those of the sample; None if it can."""
    where = "or set grpo.signal_check.required to false to train all the same"
    if found.pass_rate > MOST_PASSED:
        return ConfigError(
            f"{found.pass_rate:.1%} of the sampled answers pass, more than {MOST_PASSED:.0%}: "
            "GRPO has next to nothing to learn from these tasks",
            field="data.train",
            hint=f"use harder tasks, {where}",
        )
    if found.share.high < LEAST_SHARE:
        return ConfigError(
            f"{found.num_with_signal} of {found.num_groups} sampled groups have unequal rewards, "
            f"at most {found.share.high:.1%} with 95% confidence, and {found.pass_rate:.1%} of the "
            "answers pass: GRPO has next to nothing to learn from",
            field="data.train",
            hint="use easier tasks, a better policy or more SFT, or raise grpo.group_size or "
            f"grpo.max_tokens; {where}",
        )
    return None
