"""Random workflows from a seed: small enough that all their paths can be run."""

import random

from assay_reward.workflows.language.tree import (
    AllOf,
    AnyOf,
    Append,
    Argument,
    Assign,
    BooleanValue,
    Branch,
    Break,
    Compared,
    Containment,
    Expression,
    FieldOf,
    If,
    ListValue,
    Loop,
    NumberValue,
    OperatorCall,
    Parallel,
    Position,
    Return,
    Statement,
    TextValue,
    Variable,
    Workflow,
    loop_of,
    negated,
    text_of,
    walk,
)

AT = Position()
TEXT_NAMES = ("draft", "best", "note", "plan", "idea", "guess")
TEST_NAMES = ("check", "proof")
CUSTOM_NAMES = ("reply", "other", "third")
LIST_NAMES = ("answers",)
FLAG_NAMES = ("done",)


class ProgramWriter:
    """Writes one workflow at random; `wrong` is the share of values of a wrong kind."""

    def __init__(self, chance: random.Random, wrong: float = 0.02) -> None:
        self._chance = chance
        self._wrong = wrong
        self._num_branches = 0
        #: Names bound by the steps written so far, on whatever path.
        self._bound: dict[str, None] = {}

    def workflow(self) -> Workflow:
        """Return a tree; every path of it ends in a return."""
        first = [self._assign() for _ in range(self._chance.randint(1, 2))]
        rest = self._block(3, self._chance.randint(2, 5), in_loop=False, in_branch=False)
        steps = (*first, *rest)
        if not self._ends(steps):
            steps = (*steps, Return(self._text()))
        return Workflow(steps)

    def _ends(self, steps: tuple[Statement, ...]) -> bool:
        """Return whether no path passes the last step."""
        match steps[-1]:
            case Return() | Break():
                return True
            case If(then=then, otherwise=otherwise) if otherwise:
                return self._ends(then) and self._ends(otherwise)
            case Loop(condition=None, body=body) as loop:
                return self._ends(body) and not any(isinstance(one, Break) for one in walk(loop))
        return False

    def _block(
        self, depth: int, size: int, *, in_loop: bool, in_branch: bool
    ) -> tuple[Statement, ...]:
        steps: list[Statement] = []
        for _ in range(size):
            if in_loop and self._chance.random() < 0.2:
                steps.append(If(self._condition(1), (Break(),)))
            steps.append(self._step(depth, in_loop, in_branch))
            if self._ends(tuple(steps)):
                break
        return tuple(steps)

    def _step(self, depth: int, in_loop: bool, in_branch: bool) -> Statement:
        kinds = ["assign"] * 5 + ["append", "if", "if", "loop", "parallel"]
        kind = self._chance.choice(kinds if depth else kinds[:6])
        if kind == "append" and self._known(LIST_NAMES):
            return Append(self._chance.choice(LIST_NAMES), self._text())
        if kind == "if":
            return self._if(depth, in_loop, in_branch)
        if kind == "loop":
            body = self._block(depth - 1, self._size(), in_loop=True, in_branch=in_branch)
            condition = self._condition(1) if self._chance.random() < 0.6 else None
            index = self._chance.choice([None, "i"])
            return loop_of(self._chance.randint(1, 2), index, condition, body, position=AT)
        if kind == "parallel":
            return self._parallel(depth)
        return self._assign()

    def _size(self) -> int:
        return self._chance.randint(1, 3)

    def _if(self, depth: int, in_loop: bool, in_branch: bool) -> If:
        def block() -> tuple[Statement, ...]:
            steps = self._block(depth - 1, self._size(), in_loop=in_loop, in_branch=in_branch)
            if self._ends(steps) or self._chance.random() > 0.25:
                return steps
            if in_loop and self._chance.random() < 0.6:
                return (*steps, Break())
            return steps if in_branch else (*steps, Return(self._text()))

        otherwise = block() if self._chance.random() < 0.5 else ()
        return If(self._condition(1), block(), otherwise)

    def _parallel(self, depth: int) -> Parallel:
        targets = self._chance.sample((*TEXT_NAMES, *CUSTOM_NAMES), 2)
        branches = tuple(self._branch(target) for target in targets)
        self._bound.update(dict.fromkeys(targets))
        return Parallel(branches)

    def _branch(self, target: str) -> Branch:
        self._num_branches += 1
        body: tuple[Statement, ...] = ()
        if self._chance.random() < 0.5:
            own = f"local{self._num_branches}"
            body = (Assign(own, self._text()),)
            if self._chance.random() < 0.4:
                body = (If(self._condition(1), body),)
            if self._chance.random() < 0.8:
                return Branch(target, body, self._own(target, Variable(own)))
        return Branch(target, body, self._own(target, self._text()))

    def _own(self, target: str, value: Expression) -> Expression | OperatorCall:
        if target in TEXT_NAMES:
            return text_of([value], AT) if isinstance(value, Variable) else value
        arguments = (Argument("input", value), Argument("instruction", TextValue(("go",))))
        return OperatorCall("Custom", arguments)

    def _assign(self) -> Assign:
        kind = self._chance.choice(["text", "text", "test", "custom", "custom", "list", "flag"])
        pools = {"text": TEXT_NAMES, "test": TEST_NAMES, "list": LIST_NAMES, "flag": FLAG_NAMES}
        pool = pools.get(kind, CUSTOM_NAMES)
        new = [name for name in pool if name not in self._bound]
        name = self._chance.choice(new if new and self._chance.random() < 0.5 else pool)
        if self._chance.random() < self._wrong:
            name = self._chance.choice((*TEXT_NAMES, *TEST_NAMES, *CUSTOM_NAMES))
        value = self._value(kind)
        self._bound[name] = None
        return Assign(name, value)

    def _known(self, pool: tuple[str, ...]) -> str | None:
        """Return a name of the pool, almost always a bound one; None if none is bound."""
        bound = [name for name in self._bound if name in pool]
        if bound and self._chance.random() < 0.3:
            return bound[-1]
        if self._chance.random() < self._wrong:
            return self._chance.choice(pool)
        return self._chance.choice(bound) if bound else None

    def _value(self, kind: str) -> Expression | OperatorCall:
        if kind == "text":
            return self._text()
        if kind == "list":
            return ListValue(tuple(self._text() for _ in range(self._chance.randint(0, 2))))
        if kind == "flag":
            return self._condition(1)
        if kind == "custom":
            arguments = (Argument("input", self._text()), Argument("instruction", self._text()))
            return OperatorCall("Custom", arguments)
        problem = Argument("problem", Variable("problem"))
        return OperatorCall("Test", (problem, Argument("solution", self._text())))

    def _text(self) -> Expression:
        kind = self._chance.choice(["name", "field", "holes", "plain", "problem"])
        name, record = self._known(TEXT_NAMES), self._known((*TEST_NAMES, *CUSTOM_NAMES))
        if kind == "name" and name:
            return Variable(name)
        if kind == "field" and record:
            return FieldOf(record, "solution" if record in TEST_NAMES else "response")
        if kind == "holes" and name:
            return text_of(["so ", Variable(name)], AT)
        return TextValue(("plain",)) if kind == "plain" else Variable("problem")

    def _condition(self, depth: int) -> Expression:
        kind = self._chance.choice(["simple", "simple", "simple", "all", "any", "not"])
        if not depth or kind == "simple":
            return self._simple_condition()
        if kind == "not":
            return negated(self._condition(0))
        both = (self._condition(0), self._condition(0))
        return AllOf(both) if kind == "all" else AnyOf(both)

    def _simple_condition(self) -> Expression:
        kind = self._chance.choice(["result", "result", "flag", "equal", "equal", "in", "truth"])
        test, reply = self._known(TEST_NAMES), self._known(CUSTOM_NAMES)
        flag, texts = self._known(FLAG_NAMES), self._known(LIST_NAMES)
        if kind == "result" and test:
            return FieldOf(test, "result")
        if kind == "flag" and flag:
            return Variable(flag)
        if kind == "in" and texts:
            return Containment(TextValue(("yes",)), Variable(texts))
        if kind == "equal" and reply:
            return Compared("==", FieldOf(reply, "response"), TextValue(("yes",)))
        if kind == "truth":
            return BooleanValue(self._chance.random() < 0.5)
        return Compared("<", NumberValue(self._chance.randint(0, 1)), NumberValue(1))
