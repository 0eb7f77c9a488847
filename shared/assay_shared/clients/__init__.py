"""Typed clients of the services; each implements a seam of `assay_shared.interfaces`."""

from assay_shared.clients.http import RetryBudget, ServiceClient, Timeouts
from assay_shared.clients.inference import InferenceClient
from assay_shared.clients.judge import JudgeClient
from assay_shared.clients.reward import RewardClient
from assay_shared.clients.sandbox import SandboxClient
from assay_shared.clients.trainer import TrainerClient

__all__ = [
    "InferenceClient",
    "JudgeClient",
    "RetryBudget",
    "RewardClient",
    "SandboxClient",
    "ServiceClient",
    "Timeouts",
    "TrainerClient",
]
