"""Rules about the samples to learn from, and about learning."""

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import fmean, median, variance

from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.finding import RunFinding
from assay_trainer.events import StepEvent

_NO_SIGNAL, _FEW_PASS, _MOST_PASS = 0.6, 0.1, 0.9
_CUT_OFF = 0.1
#: Compared steps at both ends, and the fewest steps for it.
_END_STEPS, _FEWEST_STEPS = 10, 12
_COLLAPSED, _EXPLODED, _EXPLODED_NATS = 0.3, 2.0, 0.5
_CLIPPED = 0.2
_FEW_MOVED = 0.5
_TIMES_THE_NORM = 10.0
_SMALL_STEPS = 0.5


def no_signal(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if most groups had equal rewards."""
    played = sum(one.num_played for one in facts.recent)
    share = sum(one.num_without_signal for one in facts.recent) / played if played else 0.0
    if share > _NO_SIGNAL:
        rates = [one.pass_rate for one in facts.recent if one.pass_rate is not None]
        yield RunFinding(
            "no_signal",
            f"{share:.0%} of the groups had equal rewards and taught nothing (limit "
            f"{_NO_SIGNAL:.0%})",
            _advice_on_signal(fmean(rates) if rates else None),
            share,
            _NO_SIGNAL,
            "AssayGroupsWithoutSignal",
        )


def _advice_on_signal(pass_rate: float | None) -> str:
    if pass_rate is not None and pass_rate >= _MOST_PASS:
        return f"{pass_rate:.0%} of the answers pass, so take harder tasks in data.train"
    if pass_rate is not None and pass_rate <= _FEW_PASS:
        return (
            f"{pass_rate:.0%} of the answers pass, so take easier tasks in data.train (or a "
            "curriculum), train sft for longer, or choose a rubric with partial credit"
        )
    return (
        "train sft for longer, take tasks of middle difficulty in data.train (or a curriculum), a "
        "denser reward, or a greater grpo.group_size"
    )


def small_steps(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if most steps found fewer groups with signal than they want."""
    if facts.grpo is None or not facts.recent:
        return
    wanted = facts.grpo.groups_per_step
    share = fmean(one.num_groups < wanted for one in facts.recent)
    if share > _SMALL_STEPS:
        yield RunFinding(
            "small_steps",
            f"{share:.0%} of the steps trained on fewer than {wanted} groups (limit "
            f"{_SMALL_STEPS:.0%})",
            f"raise grpo.max_groups_per_step ({facts.grpo.max_groups_per_step}), or lower "
            "grpo.groups_per_step",
            share,
            _SMALL_STEPS,
        )


def truncation(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if many sampled answers were cut off."""
    share = _mean([one.truncated_share for one in facts.recent])
    if share is not None and share > _CUT_OFF:
        yield RunFinding(
            "truncation",
            f"{share:.0%} of the sampled answers were cut off (limit {_CUT_OFF:.0%})",
            "raise grpo.max_tokens, check that answers end with the end token, or set "
            "grpo.overlong",
            share,
            _CUT_OFF,
        )


def entropy(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if the entropy of the policy's tokens collapsed or exploded."""
    ends = _ends(facts.of_stage)
    if ends is None:
        return
    first, last = (fmean(one.entropy for one in end) for end in ends)
    told = f"the entropy went from {first:.3f} to {last:.3f} nats a token"
    if last < _COLLAPSED * first:
        yield RunFinding(
            "entropy_collapse",
            f"{told} (limit {_COLLAPSED:.0%} of the first steps)",
            "the answers of a group become equal; raise grpo.clip_high or grpo.entropy_weight, or "
            "lower grpo.learning_rate",
            last / first,
            _COLLAPSED,
        )
    elif last > max(_EXPLODED * first, first + _EXPLODED_NATS):
        yield RunFinding(
            "entropy_explosion",
            f"{told} (limit {_EXPLODED:g} times the first steps)",
            "the answers become random; lower grpo.learning_rate or grpo.entropy_weight, or set "
            "grpo.kl_weight",
            last / first if first else last,
            _EXPLODED,
        )


def reward(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if the reward falls, or rises without a gain on the held-out tasks."""
    steps = facts.of_stage
    third = len(steps) // 3
    if len(steps) < _FEWEST_STEPS:
        return
    first, last = (
        [one.reward for one in some if one.reward is not None]
        for some in (steps[:third], steps[-third:])
    )
    if len(first) < 2 or len(last) < 2:
        return
    rise = fmean(last) - fmean(first)
    doubt = 2 * (variance(first) / len(first) + variance(last) / len(last)) ** 0.5
    told = f"from {fmean(first):.3f} to {fmean(last):.3f}"
    if rise < -doubt:
        yield RunFinding(
            "reward_falls",
            f"the reward in training fell {told} {_over(facts)} (limit -{doubt:.3f}, two standard "
            "errors)",
            "lower grpo.learning_rate, or keep the best checkpoint by evaluation.best",
            rise,
            -doubt,
        )
    elif facts.gain is not None and rise > doubt and facts.gain.value <= 0:
        yield RunFinding(
            "reward_without_gain",
            f"the reward in training rose {told} {_over(facts)}, and pass@1 on held-out tasks "
            f"changed by {100 * facts.gain.value:+.1f} points (limit above 0)",
            "the policy may exploit the reward; run `assay audit` on the rubric, read `assay "
            "samples RUN --outcome accepted`, or take more tasks in data.train",
            facts.gain.value,
            0.0,
        )


def clipping(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if the bounds of the ratio take away the gradient of many tokens."""
    share = _mean([one.clipped_low + one.clipped_high for one in facts.recent])
    if share is not None and share > _CLIPPED:
        yield RunFinding(
            "clipping",
            f"the bounds of the ratio take away the gradient of {share:.0%} of the tokens (limit "
            f"{_CLIPPED:.0%})",
            "lower grpo.learning_rate, grpo.updates_per_step or grpo.max_staleness, or widen "
            "grpo.clip_low and grpo.clip_high",
            share,
            _CLIPPED,
        )


def gradient(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if nearly every gradient is cut to a small part of itself."""
    if facts.grpo is None or not facts.recent:
        return
    norm, limit = median(one.grad_norm for one in facts.recent), facts.grpo.max_grad_norm
    if norm > _TIMES_THE_NORM * limit:
        yield RunFinding(
            "gradient",
            f"the median norm of the gradient is {norm:.3g} (limit {_TIMES_THE_NORM:g} times "
            f"grpo.max_grad_norm, {limit:g})",
            "lower grpo.learning_rate or grpo.temperature, or check the rewards for outliers",
            norm,
            _TIMES_THE_NORM * limit,
        )


def moved_weights(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if updates change few of the weights."""
    shares = [one.moved_share for one in facts.recent if one.moved_share is not None]
    if shares and 0 < median(shares) < _FEW_MOVED:
        yield RunFinding(
            "moved_weights",
            f"an update moves {median(shares):.1%} of the weights (limit {_FEW_MOVED:.0%})",
            "updates may be lost in rounding; raise grpo.learning_rate, or lower grpo.warmup_steps",
            median(shares),
            _FEW_MOVED,
        )


def _ends(steps: Sequence[StepEvent]) -> tuple[Sequence[StepEvent], Sequence[StepEvent]] | None:
    """Return the first and the last steps; None if the run is too short to compare them."""
    if len(steps) < _FEWEST_STEPS:
        return None
    number = min(_END_STEPS, len(steps) // 3)
    return steps[:number], steps[-number:]


def _over(facts: DiagnosedFacts) -> str:
    stage = facts.steps[-1].curriculum_stage
    return "over the run" if stage is None else f"in the stage {stage}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = list(chain([one for one in values if one is not None]))
    return fmean(known) if known else None


RULES = (
    no_signal,
    small_steps,
    truncation,
    entropy,
    reward,
    clipping,
    gradient,
    moved_weights,
)
