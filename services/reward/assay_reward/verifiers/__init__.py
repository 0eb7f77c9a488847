"""Verifiers by name. Adding one is one file and one line here."""

from typing import Any

from assay_reward.measurement import Verifier
from assay_reward.verifiers import code, judged, math, or_debug

VERIFIERS: dict[str, Verifier[Any]] = {
    "accepted": code.ACCEPTED,
    "judge": judged.JUDGE,
    "math": math.MATH,
    "or_diagnosis": or_debug.DIAGNOSIS,
    "or_faithful": or_debug.FAITHFUL,
    "or_iis_recall": or_debug.SEED_DIAGNOSIS,
    "or_outcome": or_debug.OUTCOME,
    "or_preservation": or_debug.PRESERVATION,
    "or_quick": or_debug.QUICK,
    "or_steps": or_debug.STEPS,
    "pass_ratio": code.PASS_RATIO,
}
