"""Hypothesis strategies for trees of workflows, in the normal form that parsers give."""

from hypothesis import strategies as st

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
    NumberValue,
    OperatorCall,
    Parallel,
    Position,
    RecordValue,
    Reference,
    Return,
    Statement,
    TextValue,
    Variable,
    Workflow,
    loop_of,
    negated,
    text_of,
)

AT = Position()
FEW = st.integers(0, 3)
NAMES = st.sampled_from(["a", "draft", "Best_2", "x1", "answers", "operator", "n" * 64])
OPERATORS = st.sampled_from(["Custom", "Test", "custom", "ScEnsemble", "self.sc_ensemble"])
#: Every character that a text may hold, with the signs of both forms more often.
TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\\\"'{}#[]\u2028"),
    max_size=12,
)
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9)
SIMPLE_KINDS = st.sampled_from(["name", "field", "text", "text", "number", "truth"])
WIDE_KINDS = st.sampled_from(
    ["name", "text", "compared", "in", "all", "any", "not", "list", "record"]
)


def _number(value: float) -> NumberValue:
    return NumberValue(int(value) if float(value).is_integer() else value)


def _reference(draw: st.DrawFn) -> Reference:
    name = draw(NAMES)
    return FieldOf(name, draw(NAMES)) if draw(st.booleans()) else Variable(name)


def _text(draw: st.DrawFn) -> TextValue:
    parts = [draw(TEXT) if draw(st.booleans()) else _reference(draw) for _ in range(draw(FEW))]
    return text_of(parts, AT)


def _expression(draw: st.DrawFn, depth: int) -> Expression:
    kind = draw(WIDE_KINDS if depth else SIMPLE_KINDS)
    if kind in ("name", "field"):
        return _reference(draw)
    if kind == "text":
        return _text(draw)
    if kind == "number":
        return _number(draw(NUMBERS))
    if kind == "truth":
        return BooleanValue(draw(st.booleans()))
    return _wide(draw, kind, depth - 1)


def _wide(draw: st.DrawFn, kind: str, depth: int) -> Expression:
    if kind == "not":
        return negated(_expression(draw, depth))
    if kind == "record":
        return RecordValue(_arguments(draw, depth))
    one, other = _expression(draw, depth), _expression(draw, depth)
    made: dict[str, Expression] = {
        "in": Containment(one, other),
        "all": AllOf((one, other)),
        "any": AnyOf((one, other)),
        "list": ListValue((one, other)),
    }
    return Compared(draw(SIGNS), one, other) if kind == "compared" else made[kind]


def _arguments(draw: st.DrawFn, depth: int) -> tuple[Argument, ...]:
    names = {draw(NAMES): None for _ in range(draw(FEW))}
    return tuple(Argument(name, _expression(draw, depth)) for name in names)


def _value(draw: st.DrawFn) -> Expression | OperatorCall:
    if draw(st.booleans()):
        return OperatorCall(draw(OPERATORS), _arguments(draw, 1))
    return _expression(draw, 2)


def _leaf(draw: st.DrawFn) -> Statement:
    kind = draw(st.sampled_from(["assign", "assign", "append", "return", "break"]))
    if kind == "assign":
        return Assign(draw(NAMES), _value(draw))
    if kind == "append":
        return Append(draw(NAMES), _expression(draw, 2))
    return Return(_expression(draw, 2)) if kind == "return" else Break()


KINDS = st.sampled_from(["leaf", "leaf", "if", "loop", "parallel"])


@st.composite
def blocks(draw: st.DrawFn, depth: int) -> tuple[Statement, ...]:
    """Draw one to three steps, nested at most `depth` levels."""
    return tuple(_step(draw, depth) for _ in range(draw(st.integers(1, 3))))


def _step(draw: st.DrawFn, depth: int) -> Statement:
    kind = draw(KINDS) if depth else "leaf"
    if kind == "leaf":
        return _leaf(draw)
    if kind == "if":
        otherwise = draw(blocks(depth - 1)) if draw(st.booleans()) else ()
        return If(_expression(draw, 2), draw(blocks(depth - 1)), otherwise)
    if kind == "loop":
        condition = _expression(draw, 2) if draw(st.booleans()) else None
        index, body = draw(st.none() | NAMES), draw(blocks(depth - 1))
        return loop_of(draw(st.integers(1, 16)), index, condition, body, position=AT)
    targets = draw(st.lists(NAMES, min_size=2, max_size=3, unique=True))
    branches = (
        Branch(target, draw(blocks(depth - 1)) if draw(st.booleans()) else (), _value(draw))
        for target in targets
    )
    return Parallel(tuple(branches))


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    """Draw a whole tree."""
    return Workflow(draw(blocks(2)))
