"""The trace of a run: a tree of operators, model calls and programs, with bounded texts."""

import time
from dataclasses import dataclass, field
from enum import StrEnum

from assay_reward.workflows.operators.support.texts import shortened
from assay_shared.types.wire import ShownText, Wire

#: Characters of a prompt or reply in a trace (its beginning and its end), and of all of them.
_MAX_TEXT, _MAX_TEXTS = 4000, 200_000
_MAX_NOTE = 400
#: Nodes of a trace; a run has more only if its loops are long.
MAX_NODES = 400


class TraceStatus(StrEnum):
    """How a part of a run ended. `fault`: the workflow's own; `failed`: an instrument's."""

    DONE = "done"
    FAULT = "fault"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TraceNode(Wire):
    """A part of a run, with the parts inside it in the order of their beginnings."""

    #: workflow, operator, model, program, tests, branch or pass.
    kind: str
    #: The operator's name, the branch's target, or the number of a loop's pass.
    name: str
    #: How it ended.
    status: TraceStatus
    #: Seconds from the run's begin to this part's.
    began_s: float
    #: Seconds from its begin to its end.
    seconds: float
    #: The digest of the operator's prompt file.
    prompt_digest: str = ""
    #: The prompt as it was sent, or the program as it was run.
    prompt: ShownText = ""
    #: The executor's reply, or the program's output.
    reply: ShownText = ""
    #: The model that replied.
    model: str = ""
    #: Tokens of the prompt and the reply.
    tokens: int = 0
    #: Cost of the call, in the unit of the executor's prices.
    money: float = 0.0
    #: Processor time in the sandbox.
    sandbox_cpu_s: float = 0.0
    #: For people: what was noticed.
    note: ShownText = ""
    #: The line of the workflow's source.
    line: int = 0
    #: The parts inside it.
    children: tuple["TraceNode", ...] = ()

    def total_tokens(self) -> int:
        """Return the tokens of this part and of all parts inside it."""
        return self.tokens + sum(child.total_tokens() for child in self.children)

    def num_nodes(self) -> int:
        """Return the number of parts: this one and all inside it."""
        return 1 + sum(child.num_nodes() for child in self.children)

    def total_money(self) -> float:
        """Return the cost of this part and of all parts inside it."""
        return self.money + sum(child.total_money() for child in self.children)


@dataclass
class OpenTrace:
    """A part of a run in progress; `RunTrace` makes them."""

    kind: str
    name: str
    began: float
    line: int = 0
    status: TraceStatus = TraceStatus.CANCELLED
    ended: float | None = None
    prompt_digest: str = ""
    prompt: str = ""
    reply: str = ""
    model: str = ""
    tokens: int = 0
    money: float = 0.0
    sandbox_cpu_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    children: list["OpenTrace"] = field(default_factory=list)

    def end(self, status: TraceStatus = TraceStatus.DONE) -> None:
        self.ended, self.status = time.monotonic(), status

    def frozen(self, first: float, most: int = _MAX_TEXT) -> TraceNode:
        """Return the part as it stands, with texts of `most` characters.

        A part without an end was cancelled.
        """
        ended = self.ended if self.ended is not None else time.monotonic()
        return TraceNode(
            kind=self.kind,
            name=self.name,
            status=self.status,
            began_s=round(self.began - first, 4),
            seconds=round(ended - self.began, 4),
            prompt_digest=self.prompt_digest,
            prompt=shortened(self.prompt, most),
            reply=shortened(self.reply, most),
            model=self.model,
            tokens=self.tokens,
            money=self.money,
            sandbox_cpu_s=self.sandbox_cpu_s,
            note="; ".join(self.notes)[:_MAX_NOTE],
            line=self.line,
            children=tuple(child.frozen(first, most) for child in self.children),
        )


class RunTrace:
    """The trace of a run in progress. After `MAX_NODES` parts, further parts are only counted."""

    def __init__(self) -> None:
        self.root = OpenTrace("workflow", "workflow", time.monotonic())
        self._num_nodes = 1
        self._num_left_out = 0

    def open(self, parent: OpenTrace, kind: str, name: str, line: int = 0) -> OpenTrace:
        """Begin a part inside another one."""
        part = OpenTrace(kind, name, time.monotonic(), line)
        if self._num_nodes < MAX_NODES:
            self._num_nodes += 1
            parent.children.append(part)
        else:
            self._num_left_out += 1
        return part

    def frozen(self) -> TraceNode:
        """Return the whole trace as it stands."""
        if self._num_left_out:
            self.root.notes.append(f"{self._num_left_out} further parts are not shown")
        most = min(_MAX_TEXT, _MAX_TEXTS // (2 * self._num_nodes))
        return self.root.frozen(self.root.began, most)
