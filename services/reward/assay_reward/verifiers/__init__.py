"""Verifiers by name. Adding one is one file and one line here."""

from assay_reward.measurement import Verifier
from assay_reward.verifiers.code import accepted, pass_ratio
from assay_reward.verifiers.judged import judged
from assay_reward.verifiers.math import math

VERIFIERS: dict[str, Verifier] = {
    "accepted": accepted,
    "judge": judged,
    "math": math,
    "pass_ratio": pass_ratio,
}
