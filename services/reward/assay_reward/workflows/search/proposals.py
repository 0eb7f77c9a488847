"""A model's proposal of the next workflow, asked for through the executor.

The question is a workflow of one call itself. So it has the executor's retries, limits and costs.
"""

from pathlib import Path
from typing import Any, Final

from assay_reward.workflows.language.source import WorkflowForm, print_workflow
from assay_reward.workflows.operators.support.prompt_files import OperatorPrompt
from assay_reward.workflows.playing.options import ENVIRONMENT
from assay_reward.workflows.playing.reading import read_here
from assay_reward.workflows.playing.tasks import operator_list
from assay_reward.workflows.search.edits import TreeEdit
from assay_reward.workflows.search.nodes import SearchNode
from assay_shared.clients import RewardClient
from assay_shared.errors import InfrastructureError
from assay_shared.types import EnvironmentTask, StepRequest, Task

_PROMPT: Final = Path(__file__).parent / "propose.txt"
_ASK: Final = 'found = Custom(input=problem, instruction="")\nreturn found.response\n'
_MAX_TRIED: Final = 12
PROPOSED: Final = "proposed"


async def propose(
    client: RewardClient, node: SearchNode, children: list[SearchNode], seed: str
) -> tuple[TreeEdit | None, dict[str, float]]:
    """Return the model's valid workflow, or None, and the tokens and money that it took."""
    task = Task(
        id=f"proposal/{seed}",
        prompt="Propose a workflow.",
        environment=EnvironmentTask(
            name=ENVIRONMENT,
            instance={
                "problem": _question(node, children),
                "rubric": "math",
                "budgets": {"calls": 1, "depth": 1, "call_s": 60, "time_s": 130},
                "trace_chars": 0,
            },
            max_turns=2,
        ),
    )
    try:
        response = await client.step(StepRequest(task=task, turns=(_ASK,)))
    except InfrastructureError:
        return None, {}
    played: Any = response.facts.get("workflow") or {}
    run = played.get("run") or {}
    cost = run.get("cost") or {}
    spent = {
        "tokens": float(cost.get("prompt_tokens", 0) + cost.get("reply_tokens", 0)),
        "money": float(cost.get("money", 0.0)),
    }
    read = read_here(str(run.get("answer") or ""), True)
    if read.tree is None:
        return None, spent
    source = print_workflow(read.tree, WorkflowForm.TEXT)
    if source == node.record.source or source in node.tried:
        return None, spent
    return TreeEdit(PROPOSED, "a model's proposal", source), spent


def _question(node: SearchNode, children: list[SearchNode]) -> str:
    tried = [
        f"- {one.record.done}: reward {one.record.reward:.3f}"
        for one in children[-_MAX_TRIED:]
        if one.record.reward is not None
    ]
    prompt = OperatorPrompt("propose", _PROMPT.read_text().strip())
    record = node.record
    return prompt.filled(
        {
            "operators": operator_list(),
            "workflow": record.source,
            "reward": f"{record.reward or 0.0:.3f}",
            "tokens": f"{record.tokens:.0f}",
            "tried": "\n".join(tried) or "none",
        }
    )
