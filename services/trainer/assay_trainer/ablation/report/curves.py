"""What the runs of an ablation recorded on the way: curves, meters, tokens, time."""

from collections.abc import Iterator, Sequence
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


def curve_points(
    arm: str, seed: int, run: RunFolder, start: RunFolder, group_size: int
) -> list[ArmCurvePoint]:
    """Return the points of a run: its training pass rate, and the held-out sets from the start."""
    steps = step_events(run)
    tokens = dict(zip([one.step for one in steps], tokens_of(steps, group_size), strict=True))

    def point(step: int, name: str, value: float) -> ArmCurvePoint:
        drawn = tokens.get(step, 0.0)
        return ArmCurvePoint(
            arm=arm, seed=seed, step=step, drawn_tokens=drawn, name=name, value=value
        )

    trained = [(one.step, one.pass_rate) for one in steps if one.pass_rate is not None]
    found = [point(step, TRAINING, rate) for step, rate in trained]
    found += [point(0, name, value) for _, name, value in _measured(start)]
    last = max(tokens, default=0)
    for step, name, value in _measured(run):
        found.append(point(last if step is None else step, name, value))
    return found


def _measured(run: RunFolder) -> Iterator[tuple[int | None, str, float]]:
    """Yield what the ablation's tiers measured: the step, the set's name, the protocol's number."""
    for event in living(run.read_events()):
        one = content(event)
        if isinstance(one, TierEvaluated) and one.tier in (TIER, CURVE) and one.result is not None:
            name = one.set.removeprefix("curve_").replace("_", " ")
            yield one.step, f"right answers, {name}", one.result.value


def seconds_of(run: RunFolder) -> float:
    """Return the seconds of a run's steps."""
    return sum(one.step_s for one in step_events(run))
