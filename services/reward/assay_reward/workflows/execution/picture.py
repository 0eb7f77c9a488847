"""A run as a page: a time line of its parts, and their prompts and replies. All text is escaped."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from assay_reward.workflows.execution.run import WorkflowRun
from assay_reward.workflows.execution.trace import TraceNode, TraceStatus

_WIDTH, _ROW, _LABEL = 900, 20, 260
_MAX_ROWS: Final = 400
_COLOURS = {
    TraceStatus.DONE: "#3b7a57",
    TraceStatus.FAULT: "#b7791f",
    TraceStatus.FAILED: "#b83232",
    TraceStatus.CANCELLED: "#8a8f98",
}
#: Nothing of the page may load or run anything.
_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Workflow run</title><style>
body{font:14px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}
pre{white-space:pre-wrap;background:#f4f5f7;color:#16181d;padding:.6em;overflow-wrap:anywhere}
details{margin-left:1.2em}summary{cursor:pointer}svg text{font:12px system-ui,sans-serif}
.fault{color:#b7791f}.failed{color:#b83232}.cancelled{color:#8a8f98}
</style></head><body>"""


def runs_page(runs: Sequence[tuple[str, WorkflowRun, str]]) -> str:
    """Return runs, each with its title and source, as one HTML page without scripts."""
    return "\n".join([_HEAD, *(_section(*one) for one in runs), "</body></html>\n"])


def _section(title: str, run: WorkflowRun, source: str) -> str:
    parts = [f"<h1>{escape(title)}: {escape(run.status)}</h1>", _facts(run)]
    if source:
        parts.append(f"<h2>Workflow</h2><pre>{escape(source)}</pre>")
    parts += ["<h2>Time line</h2>", time_line(run.trace), "<h2>Trace</h2>", _details(run.trace)]
    if run.fallback is not None:
        name = escape(run.fallback.executor)
        parts.append(f"<h2>Fallback on {name}: reported, never rewarded</h2>")
        parts.append(f"<p>Answer: {escape(run.fallback.answer or 'none')}</p>")
        parts.append(_details(run.fallback.trace))
    return "\n".join(parts)


def time_line(trace: TraceNode) -> str:
    """Return an SVG with a bar for each part of a run, from its begin to its end."""
    rows = list(_rows(trace, 0))[:_MAX_ROWS]
    whole_s = max([trace.seconds, *(node.began_s + node.seconds for node, _ in rows), 1e-6])
    height = _ROW * len(rows) + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}"><title>Parts of the run over time</title>'
    ]
    for number, (node, level) in enumerate(rows):
        y = number * _ROW + 2
        scale = (_WIDTH - _LABEL - 10) / whole_s
        x, width = _LABEL + node.began_s * scale, max(1.0, node.seconds * scale)
        label = escape(f"{node.kind} {node.name}"[: 38 - 2 * min(level, 8)])
        lines.append(
            f'<text x="{4 + 10 * min(level, 8)}" y="{y + 13}" fill="currentColor">{label}</text>'
            f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 7}" '
            f'fill="{_COLOURS[node.status]}"><title>{escape(_summary(node))}</title></rect>'
        )
    return "\n".join([*lines, "</svg>"])


def _facts(run: WorkflowRun) -> str:
    cost = run.cost
    facts = {
        "answer": run.answer if run.answer is not None else "none",
        "executor": run.executor,
        "used": f"{cost.calls} calls, {cost.tokens} tokens, {cost.programs} programs, "
        f"{cost.seconds:.2f} s, {cost.money:g} of money, {cost.operator_cost:g} of operators' cost",
    }
    if run.fault is not None:
        facts["the workflow's fault"] = run.fault.message
    if run.failure is not None:
        facts["failure, without a score"] = run.failure.message
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _rows(node: TraceNode, level: int) -> Iterator[tuple[TraceNode, int]]:
    yield node, level
    for child in node.children:
        yield from _rows(child, level + 1)


def _summary(node: TraceNode) -> str:
    tokens, line = node.total_tokens(), f", line {node.line}" if node.line else ""
    note = f": {node.note}" if node.note else ""
    return f"{node.kind} {node.name}{line}, {node.seconds:.3f} s, {tokens} tokens{note}"


def _details(node: TraceNode) -> str:
    texts = [
        f"<p>{escape(title)}</p><pre>{escape(text)}</pre>"
        for title, text in (
            (f"prompt {node.prompt_digest}".strip(), node.prompt),
            (f"reply {node.model}".strip(), node.reply),
        )
        if text
    ]
    inside = "".join(map(_details, node.children))
    return (
        f'<details open><summary class="{escape(node.status)}">{escape(_summary(node))}</summary>'
        f"{''.join(texts)}{inside}</details>"
    )
