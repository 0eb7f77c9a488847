"""Verifiers by name. Adding one is one file and one line here."""

from typing import Any

from assay_reward.measurement import Verifier
from assay_reward.verifiers import code, judged, math

VERIFIERS: dict[str, Verifier[Any]] = {
    "accepted": code.ACCEPTED,
    "judge": judged.JUDGE,
    "math": math.MATH,
    "pass_ratio": code.PASS_RATIO,
}
