"""Environments by name. To add an environment, add a file and a line here."""

from assay_reward.environment import StepEnvironment
from assay_reward.environments import code_repair, or_debug, workflow

ENVIRONMENTS: dict[str, StepEnvironment] = {
    code_repair.NAME: code_repair.CODE_REPAIR,
    or_debug.NAME: or_debug.OR_DEBUG,
    workflow.NAME: workflow.WORKFLOW,
}
