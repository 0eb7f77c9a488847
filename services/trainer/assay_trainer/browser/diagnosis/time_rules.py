"""Rules about the time of a step."""

from collections.abc import Iterator

from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.finding import RunFinding

#: Rollouts take this many times longer than the update.
_SLOW_ROLLOUTS = 3.0
#: Of a group's time, and of the trainer's time from which waiting matters.
_SLOW_REWARD, _WAITS = 0.5, 0.3
_PUBLISH, _CHECKPOINT = 0.3, 0.2


def slow_rollouts(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if the trainer waits for groups much longer than it updates."""
    waits = sum(one.rollouts_s for one in facts.recent)
    updates = sum(one.update_s for one in facts.recent)
    if updates and waits > _SLOW_ROLLOUTS * updates:
        yield RunFinding(
            "slow_rollouts",
            f"rollouts took {waits / updates:.1f} times as long as updates (limit "
            f"{_SLOW_ROLLOUTS:g})",
            "more inference replicas or workers, a greater grpo.max_staleness, or a smaller "
            "grpo.max_tokens",
            waits / updates,
            _SLOW_ROLLOUTS,
        )


def slow_verifiers(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if a group's time goes into reward, and the trainer waits for groups."""
    number = sum(groups for _, groups, _, _ in facts.group_times)
    total = sum(one.step_s for one in facts.recent)
    waits = sum(one.rollouts_s for one in facts.recent)
    if not number or not total or waits <= _WAITS * total:
        return
    generate = sum(groups * one for _, groups, one, _ in facts.group_times) / number
    score = sum(groups * one for _, groups, _, one in facts.group_times) / number
    share = score / (generate + score) if generate + score else 0.0
    if share > _SLOW_REWARD:
        yield RunFinding(
            "slow_verifiers",
            f"a group takes {score:.2f} s in reward and {generate:.2f} s in inference: "
            f"{share:.0%} (limit {_SLOW_REWARD:.0%})",
            "more ASSAY_SANDBOX_SLOTS or sandbox replicas, higher limits in the judge's file, or a "
            "shorter time limit of the rubric's tests",
            share,
            _SLOW_REWARD,
        )


def slow_writing(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if publications or checkpoints take much of the time."""
    total = sum(one.step_s for one in facts.recent)
    if not total:
        return
    publish = sum(one.publish_s for one in facts.recent) / total
    if publish > _PUBLISH:
        yield RunFinding(
            "slow_publication",
            f"publishing weights takes {publish:.0%} of the time (limit {_PUBLISH:.0%})",
            "set ASSAY_WEIGHT_TRANSFER=direct, or train an adapter with policy.lora",
            publish,
            _PUBLISH,
        )
    waits = sum(one.checkpoint_wait_s for one in facts.recent) / total
    if waits > _CHECKPOINT:
        yield RunFinding(
            "slow_checkpoints",
            f"waits for checkpoints take {waits:.0%} of the time (limit {_CHECKPOINT:.0%})",
            "raise grpo.checkpoint_every, or give ASSAY_RUNS a faster disk",
            waits,
            _CHECKPOINT,
        )


RULES = (slow_rollouts, slow_verifiers, slow_writing)
