"""The search: choose a workflow, change it, evaluate the change, and tell its ancestors.

Each round has its own random numbers, and each evaluated workflow is a line of the log. So an
interrupted search resumes to the result that it would have had.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

from assay_reward.workflows.comparison.candidates import is_code
from assay_reward.workflows.comparison.plan import digest_of
from assay_reward.workflows.comparison.play_log import begin_or_check, kept_lines
from assay_reward.workflows.comparison.samples import MAX_ANSWERS, WorkflowSample, play_on
from assay_reward.workflows.comparison.searched import LOG, seen_facts
from assay_reward.workflows.playing.reading import read_here
from assay_reward.workflows.search.edits import TreeEdit, edits_of
from assay_reward.workflows.search.nodes import NodeRecord, SearchNode, SearchTree
from assay_reward.workflows.search.proposals import propose
from assay_shared.clients import RewardClient
from assay_shared.errors import DatasetError, InfrastructureError, InvalidInput, RoleError
from assay_shared.runs.run_folder import append_line
from assay_shared.runtime.gather import gather
from assay_shared.types import Role, Task

#: The run that the costs are charged to.
RUN: Final = "workflow-search"
#: A node has no reward if a larger share of its samples has no score.
_MOST_LOST: Final = 0.1
#: A reply without a workflow: it is not played, and asks nobody.
_NO_WORKFLOW: Final = "-"


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search. A round that has begun ends, also if it exceeds a limit.

    `proposals` is the share of rounds in which the executor's model proposes the change. The best
    `finalists` are evaluated again with `confirm` samples a task, and the best of these wins: the
    best of many noisy means is better by luck.
    """

    rounds: int = 20
    samples: int = 2
    finalists: int = 3
    confirm: int = 4
    proposals: float = 0.0
    seed: int = 0
    max_tokens: float = 10_000_000
    max_money: float = float("inf")
    max_seconds: float = 24 * 3600
    parallel: int = 8
    timeout_s: float = 900.0


@dataclass
class WorkflowSearch:
    """A search over workflows for tasks of writing one, from a first workflow."""

    client: RewardClient
    tasks: Sequence[Task]
    first: str
    options: SearchOptions
    folder: Path
    on_node: Callable[[NodeRecord], None] = lambda record: None
    tree: SearchTree = field(default_factory=SearchTree)
    confirmed: dict[int, NodeRecord] = field(default_factory=dict)
    #: The number of the last round that was tried, and why the search ended.
    ended: str = ""
    _spent: dict[str, float] = field(default_factory=lambda: {"tokens": 0.0, "money": 0.0})
    _began: float = field(default_factory=time.monotonic)

    async def run(self) -> NodeRecord:
        """Search, or resume; return the best workflow as it was confirmed.

        Raises:
            RoleError: a task is for tests only.
            InvalidInput: there is no task, or the first workflow is not valid.
            Conflict: the folder has a search with other settings.
            InfrastructureError: the first workflow could not be evaluated.
        """
        self._check()
        self._resume()
        if not self.tree.nodes:
            await self._evaluate(None, TreeEdit("", "the first workflow", self.first))
        if self.tree.nodes[0].record.reward is None:
            record = self.tree.nodes[0].record
            raise InfrastructureError(
                f"the first workflow has {record.num_scored} scores of {record.num_samples} "
                f"samples ({record.lost}); when the instruments work, remove "
                f"{self.folder / LOG} and search again",
                service="reward",
            )
        for number in range(len(self.tree.nodes), self.options.rounds + 1):
            self.ended = self._limit()
            if self.ended or not await self._round(number):
                break
        self.ended = self.ended or f"{len(self.tree.nodes) - 1} rounds were played"
        for node in self.tree.best(self.options.finalists):
            if node.record.number not in self.confirmed:
                await self._confirm(node)
        scored = [one for one in self.confirmed.values() if one.reward is not None]
        if not scored:
            raise InfrastructureError("no finalist has enough scores", service="reward")
        return max(scored, key=lambda one: (one.reward or 0.0, -one.tokens))

    def _check(self) -> None:
        if not self.tasks:
            raise DatasetError("there is no task", field="tasks")
        for_tests = [task.id for task in self.tasks if task.role is Role.TEST]
        if for_tests:
            raise RoleError(
                f"task {for_tests[0]} has the role test: a search over it would be training",
                field="role",
                hint="give tasks with the role train or validation",
            )
        if self.options.samples + self.options.confirm > MAX_ANSWERS:
            raise InvalidInput(
                f"at most {MAX_ANSWERS} samples of a task, with those that confirm", field="samples"
            )
        read = read_here(self.first, False)
        if read.tree is None:
            raise InvalidInput(
                f"the first workflow is not valid: {'; '.join(read.problems)}", field="first"
            )

    def _resume(self) -> None:
        """Read the log of an earlier start, or begin one."""
        options = self.options
        facts = {
            "tasks": digest_of(task.model_dump_json() for task in self.tasks),
            "first": digest_of([self.first]),
            "samples": str(options.samples),
            "confirm": str(options.confirm),
            "proposals": str(options.proposals),
            "seed": str(options.seed),
        } | seen_facts(self.tasks)
        begin_or_check(self.folder / LOG, facts)
        for line in kept_lines(self.folder / LOG):
            if line.get("kind") in ("node", "confirmed"):
                self._add(NodeRecord.model_validate(line))

    def _limit(self) -> str:
        """Return the limit that is reached; empty for none."""
        options = self.options
        for name, spent, most in (
            ("tokens", self._spent["tokens"], options.max_tokens),
            ("money", self._spent["money"], options.max_money),
            ("seconds", time.monotonic() - self._began, options.max_seconds),
        ):
            if spent >= most:
                return f"the limit of {most:g} {name} is reached"
        return ""

    async def _round(self, number: int) -> bool:
        """Evaluate one more workflow; return False if there is none to try."""
        rng = random.Random(f"{self.options.seed}/{number}")
        known = {node.record.source for node in self.tree.nodes}
        for node in self.tree.nodes:
            node.is_spent = False  # of an earlier start nobody knows it
        while (parent := self.tree.select(rng)) is not None:
            spent: Mapping[str, float] = {}
            edit = None
            if rng.random() < self.options.proposals:
                children = [one for one in self.tree.nodes if one.parent is parent]
                seed = f"{self.options.seed}/{number}"
                edit, spent = await propose(self.client, parent, children, seed)
            if edit is None or edit.source in known:
                edit = self._own_edit(parent, known, rng)
            if edit is not None:
                await self._evaluate(parent, edit, spent)
                return True
            parent.is_spent = True
        self.ended = "every workflow that the edits can reach was tried"
        return False

    def _own_edit(self, parent: SearchNode, known: set[str], rng: random.Random) -> TreeEdit | None:
        """Return an edit that was not tried; kinds that gained more are likelier."""
        tree = read_here(parent.record.source, False).tree
        assert tree is not None, "the log holds valid workflows alone"
        code = sum(map(is_code, self.tasks)) * 2 > len(self.tasks)
        edits = [one for one in edits_of(tree, code) if one.source not in known]
        if not edits:
            return None
        return rng.choices(edits, self.tree.weights([one.kind for one in edits]))[0]

    async def _evaluate(
        self, parent: SearchNode | None, edit: TreeEdit, spent: Mapping[str, float] = {}
    ) -> None:
        record = NodeRecord(
            number=len(self.tree.nodes),
            parent=None if parent is None else parent.record.number,
            edit=edit.kind,
            done=edit.done,
            source=edit.source,
        )
        await self._score(record, self.options.samples, spent)

    async def _confirm(self, node: SearchNode) -> None:
        await self._score(
            node.record.model_copy(update={"kind": "confirmed"}), self.options.confirm
        )

    async def _score(
        self, record: NodeRecord, number: int, spent: Mapping[str, float] = {}
    ) -> None:
        """Play a workflow on all tasks, and append it with its means to the log."""
        began = time.monotonic()
        sources = [("node", record.source)] * number
        if record.kind == "confirmed":
            # An answer's place is its seed: these runs differ from those that chose the workflow.
            sources = [*[("past", _NO_WORKFLOW)] * self.options.samples, *sources]
        places = asyncio.Semaphore(self.options.parallel)

        async def play(task: Task) -> list[WorkflowSample]:
            texts = (text for _, text in sources)
            key = f"{RUN}/{digest_of([task.model_dump_json(), *texts])}"
            async with places:
                return await play_on(
                    self.client,
                    task,
                    sources,
                    key=key,
                    run=RUN,
                    timeout_s=self.options.timeout_s,
                )

        groups = await gather(map(play, self.tasks))
        found = [one for group in groups for one in group if one.candidate == "node"]
        scored = [one for one in found if one.is_scored]
        means: dict[str, float | None] = {}
        if len(scored) >= (1 - _MOST_LOST) * len(found):
            means = {
                "reward": fmean(one.reward or 0.0 for one in scored),
                "accuracy": fmean(bool(one.is_right) for one in scored),
                "tokens": fmean(one.measure("tokens") for one in scored),
                "calls": fmean(one.measure("calls") for one in scored),
            }
        played = record.model_copy(
            update=means
            | {
                "num_scored": len(scored),
                "num_samples": len(found),
                "lost": next((one.message for one in found if not one.is_scored), ""),
                "spent_tokens": _sum(found, "tokens") + spent.get("tokens", 0.0),
                "spent_money": _sum(found, "money") + spent.get("money", 0.0),
                "spent_s": time.monotonic() - began,
            }
        )
        append_line(self.folder / LOG, played.model_dump_json())
        self._add(played)
        self.on_node(played)

    def _add(self, record: NodeRecord) -> None:
        self._spent["tokens"] += record.spent_tokens
        self._spent["money"] += record.spent_money
        if record.kind == "confirmed":
            self.confirmed[record.number] = record
        else:
            self.tree.add(record)


def _sum(samples: Sequence[WorkflowSample], name: str) -> float:
    return sum(one.measure(name) for one in samples)
