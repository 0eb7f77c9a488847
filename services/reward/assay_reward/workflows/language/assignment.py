"""Definite assignment: which reads may find a name unset, and what no path reaches.

A pass over the tree keeps two sets of names: `must`, set on every path to this point, and `may`,
set on some path. Both outcomes of every condition count as possible, so the analysis finds every
unset read (no false negative), and may find a read that no run makes (a false positive).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from assay_reward.workflows.language.names import INPUT
from assay_reward.workflows.language.problems import Problem, ProblemKind, did_you_mean
from assay_reward.workflows.language.tree import (
    AllOf,
    AnyOf,
    Append,
    Assign,
    Branch,
    Break,
    FieldOf,
    If,
    Loop,
    Node,
    Parallel,
    Position,
    Return,
    Statement,
    Variable,
    Workflow,
    children,
    walk,
)


@dataclass(frozen=True, slots=True)
class NameScope:
    """The steps whose assignments share their names: the workflow's, or a branch's.

    `assigned`: names that the steps bind, without those inside branches. `siblings`: results of
    branches that run at the same time. `outside`: names that the steps around a branch may have
    set, without the branch's own result.
    """

    body: tuple[Statement, ...]
    assigned: frozenset[str]
    siblings: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UnsetRead:
    """A read of a name that may be unset; `scopes` from the workflow to the innermost branch.

    `never_set`: no path sets the name before the read. `by_append`: the read is a list's `+=`.
    """

    name: str
    position: Position
    scopes: tuple[NameScope, ...]
    never_set: bool
    by_append: bool

    @property
    def home(self) -> NameScope | None:
        """The innermost scope that binds the name; None if no scope around the read does."""
        found = (scope for scope in reversed(self.scopes) if self.name in scope.assigned)
        return next(found, None)

    @property
    def of_sibling(self) -> bool:
        """True if a branch running at the same time computes the name."""
        return any(self.name in scope.siblings for scope in self.scopes)


@dataclass(slots=True)
class Flow:
    """What the analysis found."""

    unset: list[UnsetRead] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    #: The first step of each block's part that no path reaches.
    dead: list[Statement] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _State:
    must: frozenset[str]
    may: frozenset[str]

    def bind(self, *names: str) -> "_State":
        return _State(self.must.union(names), self.may.union(names))


def flow_of(tree: Workflow) -> Flow:
    """Return the reads that may find a name unset, unreachable steps and missing returns."""
    analysis = _Analysis()
    start = _State(frozenset({INPUT}), frozenset({INPUT}))
    scope = NameScope(tree.body, frozenset(_assigned(tree.body)))
    end = analysis.block(tree.body, start, (scope,))
    if end is not None:
        last = tree.body[-1] if tree.body else tree
        analysis.flow.problems.append(
            Problem(
                ProblemKind.RETURN,
                "the workflow may end without a return",
                last.position,
                "return a text as its last step",
            )
        )
    return analysis.flow


def _join(first: _State | None, second: _State | None) -> _State | None:
    if first is None or second is None:
        return second if first is None else first
    return _State(first.must & second.must, first.may | second.may)


class _Analysis:
    def __init__(self) -> None:
        self.flow = Flow()
        #: For each open loop, the states at its breaks.
        self._breaks: list[list[_State]] = []

    def block(
        self, steps: Sequence[Statement], state: _State | None, scopes: tuple[NameScope, ...]
    ) -> _State | None:
        for step in steps:
            if state is None:
                what = "no path reaches this step"
                hint = "the step before it ends every path"
                self._problem(ProblemKind.UNREACHABLE, what, step.position, hint)
                self.flow.dead.append(step)
                return None
            state = self._step(step, state, scopes)
        return state

    def _problem(self, kind: ProblemKind, what: str, position: Position, hint: str) -> None:
        self.flow.problems.append(Problem(kind, what, position, hint))

    def _step(self, step: Statement, state: _State, scopes: tuple[NameScope, ...]) -> _State | None:
        match step:
            case Assign(name=name, value=value):
                self._refuse_hidden(name, step.position, scopes)
                return self._read(value, state, scopes).bind(name)
            case Append(name=name, item=item):
                state = self._read(item, state, scopes)
                if name not in state.must:
                    self._unset(name, step.position, state, scopes, by_append=True)
                self._refuse_hidden(name, step.position, scopes)
                return state.bind(name)
            case If():
                state = self._read(step.condition, state, scopes)
                then = self.block(step.then, state, scopes)
                return _join(then, self.block(step.otherwise, state, scopes))
            case Loop():
                return self._loop(step, state, scopes)
            case Parallel():
                return self._parallel(step, state, scopes)
            case Break():
                self._break(step, state)
                return None
            case Return(value=value):
                self._read(value, state, scopes)
                if len(scopes) > 1:
                    what = "a branch cannot return from the workflow"
                    hint = "end the branch with its result, and return after the parallel step"
                    self._problem(ProblemKind.RETURN, what, step.position, hint)
                return None

    def _break(self, step: Break, state: _State) -> None:
        if self._breaks:
            self._breaks[-1].append(state)
        else:
            what, hint = "break outside of a loop", "leave it out"
            self._problem(ProblemKind.SYNTAX, what, step.position, hint)

    def _loop(self, step: Loop, state: _State, scopes: tuple[NameScope, ...]) -> _State | None:
        # A later pass begins with at least the names of the first one, so `must` at the head is
        # that of the entry. `may` gains the names that the body binds.
        head = _State(state.must, state.may.union(_assigned(step.body)))
        if step.index is not None:
            self._refuse_hidden(step.index, step.position, scopes)
            head = head.bind(step.index)
        if step.condition is not None:
            head = self._read(step.condition, head, scopes)
        self._breaks.append([])
        end = self.block(step.body, head, scopes)
        for left in self._breaks.pop():
            end = _join(end, left)
        # Without a condition the body runs at least once.
        return end if step.condition is None else _join(end, head)

    def _parallel(self, step: Parallel, state: _State, scopes: tuple[NameScope, ...]) -> _State:
        targets = [branch.target for branch in step.branches]
        for branch in step.branches:
            if targets.count(branch.target) > 1:
                what, hint = f"two branches give {branch.target}", "give each result its own name"
                self._problem(ProblemKind.NAME, what, branch.position, hint)
            self._refuse_hidden(branch.target, branch.position, scopes)
            own = frozenset({branch.target})
            bound = frozenset(_assigned(branch.body))
            inner = NameScope(branch.body, bound, frozenset(targets) - own, state.may - own)
            self._branch(branch, state, (*scopes, inner))
        return state.bind(*targets)

    def _branch(self, branch: Branch, state: _State, scopes: tuple[NameScope, ...]) -> None:
        # A break inside a branch does not end a loop around the branch.
        around, self._breaks = self._breaks, []
        end = self.block(branch.body, state, scopes)
        self._breaks = around
        if end is not None:
            self._read(branch.result, end, scopes)

    def _refuse_hidden(self, name: str, position: Position, scopes: tuple[NameScope, ...]) -> None:
        """Check that a step in a branch does not bind a name of the steps around the branch."""
        if name in scopes[-1].outside:
            what = f"{name} belongs to the steps around this branch"
            hint = "bind another name in the branch, and end the branch with its result"
            self._problem(ProblemKind.NAME, what, position, hint)

    def _read(self, value: Node, state: _State, scopes: tuple[NameScope, ...]) -> _State:
        """Check all reads of a value; return the state in which names that were read are set.

        A later part of `and` and `or` may be skipped: a read there sets no name for the rest.
        """
        if isinstance(value, Variable | FieldOf):
            if value.name in state.must:
                return state
            self._unset(value.name, value.position, state, scopes, by_append=False)
            return _State(state.must.union({value.name}), state.may)
        after_first = None
        for child in children(value):
            state = self._read(child, state, scopes)
            after_first = after_first or state
        return after_first or state if isinstance(value, AllOf | AnyOf) else state

    def _unset(
        self,
        name: str,
        position: Position,
        state: _State,
        scopes: tuple[NameScope, ...],
        *,
        by_append: bool,
    ) -> None:
        never_set = name not in state.may
        self.flow.unset.append(UnsetRead(name, position, scopes, never_set, by_append))


def problem_of(read: UnsetRead, tree: Workflow) -> Problem:
    """Return an unset read as a problem, with what would be right."""
    name = read.name
    kind = ProblemKind.UNSET
    if read.home is None:
        what, hint = f"there is no {name}", did_you_mean(name, _visible(read))
        if any(isinstance(node, Assign) and node.name == name for node in walk(tree)):
            hint = "a branch keeps its names to itself; end the branch with this value"
        kind = ProblemKind.NAME
    elif read.of_sibling:
        what = f"{name} is the result of a branch that runs at the same time"
        hint = "read it after the parallel step"
    elif read.never_set:
        what, hint = f"{name} is read before it is set", "set it in an earlier step"
    else:
        what = f"{name} may be unset here"
        hint = "set it before the if, loop or branch that may leave it unset"
    return Problem(kind, what, read.position, hint)


def _visible(read: UnsetRead) -> frozenset[str]:
    return frozenset({INPUT}).union(*(scope.assigned for scope in read.scopes))


def _assigned(steps: Sequence[Statement]) -> Iterator[str]:
    for step in steps:
        match step:
            case Assign(name=name) | Append(name=name):
                yield name
            case If(then=then, otherwise=otherwise):
                yield from _assigned(then)
                yield from _assigned(otherwise)
            case Loop(index=index, body=body):
                if index is not None:
                    yield index
                yield from _assigned(body)
            case Parallel(branches=branches):
                yield from (branch.target for branch in branches)
