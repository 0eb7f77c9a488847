"""Reads values and conditions of the text form."""

from collections.abc import Sequence

from assay_reward.workflows.language.limits import WorkflowLimits
from assay_reward.workflows.language.names import TEXT_KEYWORDS, named
from assay_reward.workflows.language.problems import InvalidWorkflow, ProblemKind, refuse
from assay_reward.workflows.language.spelling.numbers import number_from
from assay_reward.workflows.language.spelling.strings import text_from
from assay_reward.workflows.language.text_form.tokens import Token, TokenKind
from assay_reward.workflows.language.tree import (
    AllOf,
    AnyOf,
    Argument,
    BooleanValue,
    Compared,
    Containment,
    Expression,
    FieldOf,
    ListValue,
    NumberValue,
    OperatorCall,
    Position,
    RecordValue,
    Variable,
    negated,
)

_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")


class ExpressionReader:
    """A cursor over tokens that reads values, conditions and calls."""

    def __init__(self, tokens: Sequence[Token], limits: WorkflowLimits) -> None:
        self._tokens = tokens
        self._limits = limits
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        """The next token; the last one is END."""
        return self._tokens[self._at]

    def take(self) -> Token:
        """Return the next token and move on."""
        token = self.next
        if token.kind is not TokenKind.END:
            self._at += 1
        return token

    def sees(self, *texts: str, ahead: int = 0) -> bool:
        """Return whether a coming token is one of these words or signs."""
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        return token.text in texts and token.kind in (TokenKind.NAME, TokenKind.SIGN)

    def takes(self, text: str) -> bool:
        """Take a word or sign if it comes next; return whether it did."""
        if self.sees(text):
            self.take()
            return True
        return False

    def expect(self, text: str, hint: str = "") -> Token:
        """Return the word or sign that has to come next.

        Raises:
            InvalidWorkflow: another token comes.
        """
        if not self.sees(text):
            raise self.unexpected(f"{text} is missing before {self.next}", hint)
        return self.take()

    def name(self) -> Token:
        """Return the name that has to come next.

        Raises:
            InvalidWorkflow: another token comes, or the name is a word of the language.
        """
        if self.next.kind is not TokenKind.NAME:
            raise self.unexpected(f"a name is missing before {self.next}")
        named(self.next.text, self.next.position)
        return self.take()

    def unexpected(self, what: str, hint: str = "") -> InvalidWorkflow:
        """Return a syntax error at the next token."""
        return refuse(ProblemKind.SYNTAX, what, self.next.position, hint)

    def value_or_call(self) -> Expression | OperatorCall:
        """Return a value, or a call if a name and a bracket come."""
        return self._call() if self._sees_call() else self.expression()

    def expression(self) -> Expression:
        """Return a value or condition."""
        self._depth += 1
        if self._depth > 2 * self._limits.max_depth:
            hint = f"at most {self._limits.max_depth} levels"
            raise refuse(ProblemKind.LIMIT, "nested too deeply", self.next.position, hint)
        position = self.next.position
        conditions = [self._all_of()]
        while self.takes("or"):
            conditions.append(self._all_of())
        self._depth -= 1
        if len(conditions) == 1:
            return conditions[0]
        return AnyOf(tuple(conditions), position=position)

    def _all_of(self) -> Expression:
        position = self.next.position
        conditions = [self._negation()]
        while self.takes("and"):
            conditions.append(self._negation())
        if len(conditions) == 1:
            return conditions[0]
        return AllOf(tuple(conditions), position=position)

    def _negation(self) -> Expression:
        num_negations = 0
        while self.takes("not"):
            num_negations += 1
        condition = self._comparison()
        for _ in range(num_negations):
            condition = negated(condition)
        return condition

    def _comparison(self) -> Expression:
        position = self.next.position
        left = self._primary()
        if self.sees(*_COMPARISONS):
            left = Compared(self.take().text, left, self._primary(), position=position)
        elif self.takes("in"):
            left = Containment(left, self._primary(), position=position)
        elif self.sees("not") and self.sees("in", ahead=1):
            self._at += 2
            left = negated(Containment(left, self._primary(), position=position))
        if self.sees(*_COMPARISONS, "in"):
            raise self.unexpected("two comparisons in a row", "join them with and")
        return left

    def _primary(self) -> Expression:
        token = self.next
        if token.kind is TokenKind.STRING:
            return text_from(self.take().text, token.position)
        if token.kind is TokenKind.NUMBER or self.sees("-"):
            return self._number()
        if self.sees("true", "false"):
            return BooleanValue(self.take().text == "true", position=token.position)
        if self.sees("("):
            self.take()
            inner = self.expression()
            self.expect(")")
            return inner
        if self.sees("["):
            return self._list()
        if self.sees("{"):
            return self._record()
        return self._reference()

    def _number(self) -> NumberValue:
        position = self.next.position
        sign = "-" if self.takes("-") else ""
        if self.next.kind is not TokenKind.NUMBER:
            raise self.unexpected(f"a number is missing before {self.next}")
        return number_from(sign + self.take().text, position)

    def _reference(self) -> Variable | FieldOf:
        token = self.next
        if token.text in TEXT_KEYWORDS or token.kind is not TokenKind.NAME:
            raise self.unexpected(f"a value is missing before {token}")
        if token.text in ("True", "False", "None", "await"):
            known = {
                "True": "write true",
                "False": "write false",
                "None": "there is no empty value",
            }
            raise self.unexpected(f"{token} is Python", known.get(token.text, "leave await out"))
        if self._sees_call():
            what = f"{token}(...) stands inside another step"
            raise self.unexpected(what, "give the call its own line: name = Operator(...)")
        name = self.name()
        if not self.takes("."):
            return Variable(name.text, position=name.position)
        return FieldOf(name.text, self.name().text, position=name.position)

    def _sees_call(self) -> bool:
        if self.next.kind is not TokenKind.NAME or self.next.text in TEXT_KEYWORDS:
            return False
        return self.sees("(", ahead=1) or (self.sees(".", ahead=1) and self.sees("(", ahead=3))

    def _call(self) -> OperatorCall:
        position = self.next.position
        operator = self.take().text
        if self.takes("."):
            operator += "." + self.take().text
        self.expect("(")
        arguments = self._arguments(")", "=")
        return OperatorCall(operator, arguments, position=position)

    def _arguments(self, end: str, sign: str) -> tuple[Argument, ...]:
        """Return `name sign value, ...` up to and with the end sign."""
        found: list[Argument] = []
        while not self.takes(end):
            position = self.next.position
            if not self.sees(sign, ahead=1):
                hint = f"name each value: name{sign} value" if sign == ":" else "write name=value"
                raise self.unexpected(f"a value without its name: {self.next}", hint)
            name = self.name().text
            refuse_twice(name, found, position)
            self.expect(sign)
            found.append(Argument(name, self.expression(), position=position))
            self._separator(end)
        return tuple(found)

    def _separator(self, end: str) -> None:
        if not self.takes(",") and not self.sees(end):
            raise self.unexpected(f", or {end} is missing before {self.next}")

    def _list(self) -> ListValue:
        position = self.expect("[").position
        items: list[Expression] = []
        while not self.takes("]"):
            items.append(self.expression())
            self._separator("]")
        return ListValue(tuple(items), position=position)

    def _record(self) -> RecordValue:
        position = self.expect("{").position
        return RecordValue(self._arguments("}", ":"), position=position)


def refuse_twice(name: str, found: Sequence[Argument], position: Position) -> None:
    """Check that a name is given once.

    Raises:
        InvalidWorkflow: it is among the arguments already.
    """
    if any(argument.name == name for argument in found):
        raise refuse(ProblemKind.PARAMETER, f"{name} is given twice", position, "give it once")
