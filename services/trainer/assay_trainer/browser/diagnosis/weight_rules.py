"""Rules about the sampling weights: differences from the trainer's, and their age."""

from collections.abc import Iterator
from statistics import fmean

from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.finding import RunFinding

_MISMATCH_NATS = 0.1
_REFUSED = 0.2
_LONGER = 1.5
_CORRECTED = 0.3


def mismatch(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if engine and trainer differ under the same weights."""
    found = [one.mismatch.kl_k3_nats for one in facts.recent if one.mismatch is not None]
    if found and fmean(found) > _MISMATCH_NATS:
        yield RunFinding(
            "mismatch",
            f"engine and trainer differ by {fmean(found):.3f} nats a token under the same weights "
            f"(limit {_MISMATCH_NATS:g})",
            "stop the run and compare `GET /v1/weights/digest` of the engine; serve in the type "
            "that is published (--dtype among ASSAY_INFERENCE_VLLM_ARGUMENTS), or set "
            "grpo.correction: tis",
            fmean(found),
            _MISMATCH_NATS,
            "AssayWeightMismatch",
        )


def refused_groups(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding for each reason why many groups are refused."""
    fixes = {
        "too_old": "raise grpo.max_staleness or grpo.hard_staleness, or use fewer workers",
        "unknown_version": "give each run its inference: another trainer publishes to this one",
    }
    words = {"too_old": "too old", "unknown_version": "of unknown weights"}
    played = sum(one.num_played for one in facts.recent)
    for reason, fix in fixes.items():
        share = sum(one.refused.get(reason, 0) for one in facts.recent) / played if played else 0.0
        if share > _REFUSED:
            yield RunFinding(
                f"refused_{reason}",
                f"{share:.0%} of the groups were refused as {words[reason]} (limit {_REFUSED:.0%})",
                fix,
                share,
                _REFUSED,
                "AssayGroupsRefused",
            )


def staleness(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if groups are older than learnt tokens, or long answers are dropped."""
    ages = [one.staleness_mean for one in facts.recent if one.staleness_mean is not None]
    if facts.grpo is not None and ages and fmean(ages) > facts.grpo.max_staleness:
        limit = facts.grpo.max_staleness
        yield RunFinding(
            "staleness",
            f"the oldest tokens of a group are {fmean(ages):.1f} versions old (limit {limit}, "
            "grpo.max_staleness)",
            "older tokens leave the loss; raise grpo.max_staleness with grpo.correction, add "
            "inference replicas, or lower grpo.max_tokens",
            fmean(ages),
            limit,
        )
    pairs = [
        (one.dropped_length_mean, one.length_mean)
        for one in facts.recent
        if one.dropped_length_mean is not None and one.length_mean
    ]
    times = fmean(dropped / kept for dropped, kept in pairs) if pairs else 0.0
    if times > _LONGER:
        yield RunFinding(
            "long_answers_dropped",
            f"answers dropped as too old are {times:.1f} times as long as the others (limit "
            f"{_LONGER:g})",
            "training prefers short answers; raise grpo.hard_staleness, or use fewer workers",
            times,
            _LONGER,
        )


def correction(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if the correction for old weights changes many tokens."""
    named = {
        "masked_share": "leaves out",
        "truncated_weight_share": "cuts the weight of",
    }
    for name, does in named.items():
        shares = [float(getattr(one, name)) for one in facts.recent]
        if shares and fmean(shares) > _CORRECTED:
            yield RunFinding(
                f"correction_{name}",
                f"grpo.correction {does} {fmean(shares):.0%} of the tokens (limit "
                f"{_CORRECTED:.0%})",
                "lower grpo.max_staleness or grpo.learning_rate, or widen its bounds low and high",
                fmean(shares),
                _CORRECTED,
            )


RULES = (mismatch, refused_groups, staleness, correction)
