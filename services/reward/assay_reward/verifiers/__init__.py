"""Verifiers by name. To add a verifier, add a file and a line here."""

from typing import Any

from assay_reward.verifiers.choice import CHOICE
from assay_reward.verifiers.code import ACCEPTED, PASS_RATIO
from assay_reward.verifiers.constraints import CONSTRAINTS
from assay_reward.verifiers.exact_match import EXACT_MATCH
from assay_reward.verifiers.f1 import F1
from assay_reward.verifiers.json_schema import JSON_SCHEMA
from assay_reward.verifiers.judged import GRADED, JUDGE
from assay_reward.verifiers.language import LANGUAGE
from assay_reward.verifiers.math import MATH
from assay_reward.verifiers.or_debug import (
    DIAGNOSIS,
    FAITHFUL,
    OUTCOME,
    PRESERVATION,
    QUICK,
    SEED_DIAGNOSIS,
    STEPS,
)
from assay_reward.verifiers.overlong import OVERLONG
from assay_reward.verifiers.pattern import PATTERN
from assay_reward.verifiers.qa import QA
from assay_reward.verifiers.repair import REPAIR
from assay_reward.verifiers.repetition import REPETITION
from assay_reward.verifiers.rltf import RLTF_ADAPTIVE, RLTF_COARSE
from assay_reward.verifiers.verifier import Verifier
from assay_reward.verifiers.workflow import (
    WORKFLOW_CLEAN,
    WORKFLOW_CORRECT,
    WORKFLOW_THRIFT,
    WORKFLOW_VALID,
)

VERIFIERS: dict[str, Verifier[Any]] = {
    "accepted": ACCEPTED,
    "choice": CHOICE,
    "constraints": CONSTRAINTS,
    "exact_match": EXACT_MATCH,
    "f1": F1,
    "graded": GRADED,
    "json_schema": JSON_SCHEMA,
    "judge": JUDGE,
    "language": LANGUAGE,
    "math": MATH,
    "or_diagnosis": DIAGNOSIS,
    "or_faithful": FAITHFUL,
    "or_iis_recall": SEED_DIAGNOSIS,
    "or_outcome": OUTCOME,
    "or_preservation": PRESERVATION,
    "or_quick": QUICK,
    "or_steps": STEPS,
    "overlong": OVERLONG,
    "pass_ratio": PASS_RATIO,
    "pattern": PATTERN,
    "qa": QA,
    "repair": REPAIR,
    "repetition": REPETITION,
    "rltf_adaptive": RLTF_ADAPTIVE,
    "rltf_coarse": RLTF_COARSE,
    "workflow_clean": WORKFLOW_CLEAN,
    "workflow_correct": WORKFLOW_CORRECT,
    "workflow_thrift": WORKFLOW_THRIFT,
    "workflow_valid": WORKFLOW_VALID,
}
