"""What the runs of an ablation recorded on the way: curves, meters, tokens, time."""

from collections.abc import Sequence
from statistics import fmean

from assay_shared.runs.run_folder import RunFolder
from assay_trainer.ablation.arms import CURVE, TIER
from assay_trainer.ablation.decomposition.batches import step_events
from assay_trainer.ablation.judging.findings import ArmCurvePoint
from assay_trainer.events import StepEvent, TierEvaluated, content, living

TRAINING = "training pass rate"
#: Fields of a step's event. The report shows their means for each arm; reward is not a result.
METERS = (
    "reward",
    "reward_variance",
    "clipped_low",
    "clipped_high",
    "kl",
    "kl_gradient_share",
    "num_replaced",
    "masked_share",
    "token_weight_spread",
    "entropy",
    "grad_norm",
    "length_mean",
)


def tokens_of(steps: Sequence[StepEvent], group_size: int) -> list[float]:
    """Return the tokens sampled up to the end of each step: groups played times the mean length.

    Lengths are those of the answers trained on, so it is an estimate where groups are replaced.
    """
    found, total = [], 0.0
    for one in steps:
        total += one.num_played * group_size * (one.length_mean or 0.0)
        found.append(total)
    return found


def meters_of(steps: Sequence[StepEvent]) -> dict[str, float]:
    """Return the mean of each meter over steps that have it."""
    found = {}
    for name in METERS:
        known = [float(v) for one in steps if (v := getattr(one, name, None)) is not None]
        if known:
            found[name] = fmean(known)
    return found


def curve_points(arm: str, seed: int, run: RunFolder, group_size: int) -> list[ArmCurvePoint]:
    """Return the points of a run: its training pass rate, and the held-out metrics measured."""
    steps = step_events(run)
    tokens = dict(zip([one.step for one in steps], tokens_of(steps, group_size), strict=True))
    found = [
        ArmCurvePoint(
            arm=arm,
            seed=seed,
            step=one.step,
            drawn_tokens=tokens[one.step],
            name=TRAINING,
            value=one.pass_rate,
        )
        for one in steps
        if one.pass_rate is not None
    ]
    last = max(tokens, default=0)
    for event in living(run.read_events()):
        one = content(event)
        if not isinstance(one, TierEvaluated) or one.tier not in (TIER, CURVE):
            continue
        step = last if one.step is None else one.step
        if one.result is not None and step in tokens:
            name = one.set.removeprefix("curve_")
            found.append(
                ArmCurvePoint(
                    arm=arm,
                    seed=seed,
                    step=step,
                    drawn_tokens=tokens[step],
                    name=f"held-out {name}",
                    value=one.result.value,
                )
            )
    return found


def seconds_of(run: RunFolder) -> float:
    """Return the seconds of a run's steps."""
    return sum(one.step_s for one in step_events(run))
