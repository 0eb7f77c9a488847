"""report.md and report.html of an evaluation."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay_shared.runs.run_folder import write_atomically
from assay_shared.text import markdown
from assay_shared.text.html_pages import picture_url, templates_in
from assay_trainer.evaluation.metrics.set_metrics import (
    ErrorType,
    SetMetrics,
    StoredEstimate,
    StratumMetrics,
)
from assay_trainer.evaluation.records.folder import StoredEvaluation

_TEMPLATES = Path(__file__).parent / "templates"
_MISSING = "-"


def write_report(stored: StoredEvaluation, metrics: Mapping[str, SetMetrics]) -> None:
    """Write report.md and report.html into the evaluation's folder."""
    environment = templates_in(_TEMPLATES)
    environment.filters |= {
        "code": markdown.code,
        "cell": markdown.cell,
        "percent": percent,
        "number": number,
    }
    values = {
        "record": stored.record,
        "sets": stored.sets,
        "metrics": metrics,
        "rows": {name: dict(rows_of(one.overall)) for name, one in metrics.items()},
        "headline": headline,
        "tasks_told": tasks_told,
        "curve_axes": curve_axes,
        "pictures": {
            name: picture_url(drawn)
            for name, one in metrics.items()
            if (drawn := _picture(name, one)) is not None
        },
    }
    for name in ("report.md", "report.html"):
        text = environment.get_template(f"{name}.j2").render(values)
        write_atomically(stored.path / name, text)


def headline(found: StratumMetrics) -> StoredEstimate | None:
    """Return the number that the protocol is about."""
    multi = None if found.repair is None else found.repair.accepted_at_multi
    for one in (found.majority, found.solved_in_budget, multi):
        if one is not None:
            return one
    return found.accepted_at_1


def tasks_counted(found: StratumMetrics) -> int:
    """Return the number of tasks in the headline."""
    if found.num_budget_tasks is not None:
        return found.num_budget_tasks
    return found.num_scored_tasks


def tasks_told(found: StratumMetrics) -> str:
    """Return the number of tasks for people; if some are not in the headline, both numbers."""
    counted = tasks_counted(found)
    return f"{counted} of {found.num_tasks}" if counted < found.num_tasks else str(counted)


def percent(one: StoredEstimate | None) -> str:
    """Return a share with its interval for people."""
    if one is None:
        return _MISSING
    return f"{100 * one.value:.1f}% [{_end(one.low, 100)}, {_end(one.high, 100)}]"


def number(one: StoredEstimate | None) -> str:
    """Return a quantity with its interval for people."""
    if one is None:
        return _MISSING
    return f"{one.value:.4g} [{_end(one.low, 1)}, {_end(one.high, 1)}]"


def _end(value: float | None, scale: float) -> str:
    if value is None:
        return "unbounded"
    return f"{scale * value:.1f}" if scale == 100 else f"{value:.4g}"


def rows_of(found: StratumMetrics) -> list[tuple[str, str]]:
    """Return names and values of a stratum's numbers for people."""
    rows = [
        ("tasks scored", f"{found.num_scored_tasks} of {found.num_tasks}"),
        ("samples without a score", f"{found.num_failed} of {found.num_samples}"),
        ("accepted@1", percent(found.accepted_at_1)),
    ]
    rows += [(f"pass@{k}", percent(one)) for k, one in found.pass_at.items() if k > 1]
    named = {
        "majority": found.majority,
        "solved in budget": found.solved_in_budget,
        "right by sum": found.by_sum,
        "right by mean": found.by_mean,
    }
    rows += [(name, percent(one)) for name, one in named.items() if one is not None]
    rows += _of_repair(found)
    rows += _of_code(found)
    rows.append(("cut off", percent(found.truncated)))
    if found.num_without_text:
        rows.append(("scored answers without text", str(found.num_without_text)))
    return rows + _of_costs(found)


def _of_repair(found: StratumMetrics) -> list[tuple[str, str]]:
    repair = found.repair
    if repair is None:
        return []
    over = repair.over_best_of_n
    return [
        ("accepted after the last round", percent(repair.accepted_at_multi)),
        ("recovered of those that failed at first", percent(repair.recovery_rate)),
        ("change of the pass ratio", number(repair.pass_ratio_change)),
        ("rounds, mean; programs repeated", f"{repair.mean_rounds:.2f}; {repair.num_repeated}"),
        ("repair reward", f"{repair.repair_reward:.3f}"),
        ("best of n for as many tokens", percent(repair.best_of_n)),
        ("repair over best of n", f"{percent(over)}: {repair.verdict}"),
        ("tokens: repair, best of n", f"{repair.tokens}, {repair.control_tokens}"),
        *(
            (f"{before} then".replace("_", " "), _counts(after))
            for before, after in repair.transitions.items()
        ),
    ]


def _counts(after: Mapping[ErrorType, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in after.items())


def _of_code(found: StratumMetrics) -> list[tuple[str, str]]:
    code = found.code
    if code is None:
        return []
    quantiles = f"{code.pass_ratio_p50:.3g}, {code.pass_ratio_p90:.3g}"
    rows = [
        ("execution success", percent(code.execution_success)),
        ("pass ratio", percent(code.pass_ratio)),
        ("pass ratio p50, p90", quantiles),
    ]
    errors = [(name.replace("_", " "), one) for name, one in code.error_types.items()]
    return rows + [(f"error: {name}", percent(one)) for name, one in errors]


def _of_costs(found: StratumMetrics) -> list[tuple[str, str]]:
    costs = found.costs
    if costs is None:
        return []
    tokens = costs.tokens
    spread = _MISSING
    if tokens is not None:
        spread = f"{tokens.mean:.1f}, {tokens.p50:.0f}, {tokens.p90:.0f}"
    rows = [
        ("tokens: mean, p50, p90", spread),
        ("tokens for each accepted", number(costs.tokens_per_solved)),
        ("sandbox CPU, judge", f"{costs.sandbox_cpu_s:.1f} s, {costs.judge_s:.1f} s"),
        ("judging seconds for each accepted", number(costs.judging_s_per_solved)),
    ]
    if costs.money:
        rows += [
            ("money", f"{costs.money:.4g}"),
            ("money for each accepted", number(costs.money_per_solved)),
        ]
    return rows


def curve_axes(metrics: SetMetrics) -> tuple[str, str]:
    """Return the names of a curve's axes. Repair's is about the last programs."""
    along = "k" if metrics.curve_over == "k" else "drawn tokens a task"
    solved = "share solved" if metrics.curve_over == "tokens" else "pass@k"
    return along, solved + ("" if metrics.overall.repair is None else " after the last round")


def _picture(name: str, metrics: SetMetrics) -> bytes | None:
    """Return the picture of a set's curve, as PNG; None without a curve."""
    if len(metrics.curve) < 2:
        return None
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 3.2))
    x = [point.x for point in metrics.curve]
    shares = [point.share for point in metrics.curve]
    low: list[Any] = [one.low for one in shares]
    high: list[Any] = [one.high for one in shares]
    ax.plot(x, [one.value for one in shares], marker="o", color="#2563eb")
    ax.fill_between(x, low, high, color="#2563eb", alpha=0.15)
    if metrics.curve_over == "k":
        ax.set_xticks(x)
    along, solved = curve_axes(metrics)
    ax.set_xlabel(along)
    ax.set_ylabel(solved)
    ax.set_title(name)
    ax.set_ylim(0, 1)
    ax.grid(alpha=0.25)
    figure.tight_layout()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    plt.close(figure)
    return content.getvalue()
