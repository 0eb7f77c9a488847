"""A search's result: the best workflow, and the tree."""

from assay_reward.workflows.comparison.searched import BEST
from assay_reward.workflows.search.nodes import NodeRecord
from assay_reward.workflows.search.search import WorkflowSearch
from assay_shared.runs.run_folder import write_atomically


def write_result(search: WorkflowSearch, best: NodeRecord) -> None:
    """Write best.txt and search.md into the search's folder."""
    write_atomically(search.folder / BEST, best.source)
    lines = [
        "# Workflow search",
        "",
        f"Ended: {search.ended}. Best: workflow {best.number}, confirmed with "
        f"{best.num_scored} samples: reward {best.reward:.3f}, accuracy {best.accuracy:.1%}, "
        f"{best.tokens:.0f} tokens.",
        "",
        f"```\n{best.source.strip()}\n```",
        "",
        "| workflow | parent | change | reward | accuracy | tokens | calls | scored | confirmed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for node in search.tree.nodes:
        lines.append(_line(node.record, search.confirmed.get(node.record.number)))
    write_atomically(search.folder / "search.md", "\n".join([*lines, ""]))


def _line(record: NodeRecord, confirmed: NodeRecord | None) -> str:
    again = "" if confirmed is None or confirmed.reward is None else f"{confirmed.reward:.3f}"
    cells = (
        record.number,
        "" if record.parent is None else record.parent,
        record.done,
        "none" if record.reward is None else f"{record.reward:.3f}",
        "none" if record.accuracy is None else f"{record.accuracy:.1%}",
        f"{record.tokens:.0f}",
        f"{record.calls:.1f}",
        f"{record.num_scored} of {record.num_samples}",
        again,
    )
    return f"| {' | '.join(map(str, cells))} |"
