"""Lengths of answers against the policy's context, for the start and each arm."""

from collections.abc import Mapping

from assay_shared.errors import ConfigError
from assay_trainer.ablation.arms import AblationPlan, start_config
from assay_trainer.ablation.field_names import field_in_file
from assay_trainer.config import RunConfig
from assay_trainer.learner.network.context import known_context
from assay_trainer.pipeline.plan_rules import check_answer_lengths


def check_lengths(plan: AblationPlan, configs: Mapping[str, RunConfig]) -> None:
    """Check that answers leave room for a prompt; nothing is said of a policy not here yet.

    Args:
        configs: of the arms, by name.

    Raises:
        ConfigError: an answer may be as long as the context; names the field, and the arm of it.
    """
    start = start_config(plan)
    context = known_context(start.policy)
    _check(plan, "", start, context)
    for name, config in configs.items():
        _check(plan, f"arms.{name}: ", config, context)


def _check(plan: AblationPlan, owner: str, config: RunConfig, context: int | None) -> None:
    for found in check_answer_lengths(config, context):
        raise ConfigError(
            found.message,
            field=f"{owner}{field_in_file(plan, found.field)}",
            hint=f"set it below {context} by the tokens of the longest prompt",
        )
