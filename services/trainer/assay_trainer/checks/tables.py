"""Validation and audit as they are seen in a terminal."""

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from assay_shared.statistics.interval import Interval
from assay_shared.types import Scored
from assay_trainer.checks.baselines import BaselineEarnings
from assay_trainer.checks.rewards import KINDS, Check, RewardFinding, Validation

_SHOWN = 5
_MAX_TEXT = 200


def show_validation(validation: Validation, console: Console) -> None:
    """Show counts by kind of answer, the first exceptions, and the share of tasks with any."""
    console.print(validation_table(validation))
    if validation.found(RewardFinding.EXCEPTION):
        console.print(exceptions_table(validation))
    share = validation.bad_share
    console.print(
        f"{validation.num_bad} of {validation.num_measured} tasks have an exception ({share:.2%})",
        highlight=False,
    )


def validation_table(validation: Validation) -> Table:
    """Return a table by kind of answer: number and outcome."""
    table = proof_table("answer", "answers", "as expected", "exceptions", "failures", "mean reward")
    for kind in KINDS:
        checks = validation.of_kind(kind)
        if checks:
            counts = [sum(check.finding is one for check in checks) for one in RewardFinding]
            values = [c.reward.value for c in checks if isinstance(c.reward, Scored)]
            mean = f"{sum(values) / len(values):.4f}" if values else "-"
            table.add_row(kind, str(len(checks)), *map(str, counts), mean)
    return table


def exceptions_table(validation: Validation) -> Table:
    """Show the first exceptions."""
    table = proof_table("task", "answer", "reward", "why")
    for check in validation.found(RewardFinding.EXCEPTION)[:_SHOWN]:
        table.add_row(check.task.id, check.kind, *_reward(check))
    return table


def _reward(check: Check) -> tuple[str, str]:
    reward = check.reward
    if not isinstance(reward, Scored):
        return "-", reward.failure.message[:_MAX_TEXT]
    details = "; ".join(one.detail for one in reward.components if one.detail)
    return f"{reward.value:g} of {check.highest:g}", details[:_MAX_TEXT]


def audit_table(earnings: dict[str, BaselineEarnings]) -> Table:
    """Show each policy's mean reward and accepted share, with 95% intervals over tasks."""
    table = proof_table("policy", "tasks", "reward (95%)", "accepted (95%)", "failures")
    for policy, earned in earnings.items():
        reward = accepted = "-"
        if earned.rewards:
            reward = _shown(earned.reward(), "{:.3f}")
            accepted = _shown(earned.accepted(), "{:.1%}")
        counts = str(len(earned.rewards)), str(earned.num_failures)
        table.add_row(policy, counts[0], reward, accepted, counts[1])
    return table


def _shown(interval: Interval, form: str) -> str:
    """Return a mean with its interval; resamples of equal values say nothing of other tasks."""
    if interval.low == interval.high:
        return f"{form.format(interval.value)} (equal on all tasks)"
    value, low, high = (form.format(x) for x in (interval.value, interval.low, interval.high))
    return f"{value} ({low} to {high})"


def proof_table(*columns: str) -> Table:
    table = Table(box=MARKDOWN)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table
