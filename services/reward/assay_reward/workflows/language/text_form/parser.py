"""Reads the text form: one line a step, blocks that close with `end`.

draft = Custom(input=problem, instruction="Solve it step by step.")
review = Review(problem=problem, solution=draft.response)
if review.review_result
  return draft.response
end
fixed = Revise(problem=problem, solution=draft.response, feedback=review.feedback)
return fixed.solution
"""

from assay_reward.workflows.language.limits import (
    DEFAULT_LIMITS,
    WorkflowLimits,
    refuse_large,
    refuse_long,
)
from assay_reward.workflows.language.names import bound_name
from assay_reward.workflows.language.problems import ProblemKind, did_you_mean, refuse
from assay_reward.workflows.language.spelling.strings import refuse_control_characters
from assay_reward.workflows.language.text_form.additions import with_text_additions
from assay_reward.workflows.language.text_form.expressions import ExpressionReader
from assay_reward.workflows.language.text_form.tokens import Token, TokenKind, tokens_of
from assay_reward.workflows.language.tree import (
    Append,
    Assign,
    Branch,
    Break,
    Expression,
    If,
    Loop,
    NumberValue,
    Parallel,
    Position,
    Return,
    Statement,
    Workflow,
    loop_of,
)

#: First words of steps.
_STEPS = ("if", "repeat", "parallel", "return", "break")


def parse_text(source: str, limits: WorkflowLimits = DEFAULT_LIMITS) -> Workflow:
    """Return the tree of a workflow in text form.

    Raises:
        InvalidWorkflow: with the first problem, its line and column.
    """
    refuse_long(source, limits)
    source = source.replace("\r\n", "\n")
    refuse_control_characters(source)
    parser = _Parser(tokens_of(source, limits), limits)
    tree = with_text_additions(parser.workflow())
    refuse_large(tree, limits)
    return tree


class _Parser:
    def __init__(self, tokens: list[Token], limits: WorkflowLimits) -> None:
        self._read = ExpressionReader(tokens, limits)
        self._limits = limits
        self._depth = 0

    def workflow(self) -> Workflow:
        body = self._steps()
        if self._read.next.kind is not TokenKind.END:
            word = self._read.next
            raise self._read.unexpected(f"{word} without a block that it belongs to")
        return Workflow(body, position=Position())

    def _block(self, opened: Token) -> tuple[Statement, ...]:
        """Return the steps after a header line, up to a word that closes the block."""
        self._line_end()
        self._depth += 1
        if self._depth > self._limits.max_depth:
            hint = f"at most {self._limits.max_depth} levels"
            raise refuse(ProblemKind.LIMIT, "blocks nested too deeply", opened.position, hint)
        steps = self._steps()
        self._depth -= 1
        if not steps:
            what = f"the block of {opened} is empty"
            raise refuse(ProblemKind.SYNTAX, what, opened.position, "write a step, or leave it out")
        return steps

    def _steps(self) -> tuple[Statement, ...]:
        steps: list[Statement] = []
        while self._read.next.kind is not TokenKind.END and not self._read.sees(
            "end", "else", "give"
        ):
            steps.append(self._step())
        return tuple(steps)

    def _step(self) -> Statement:
        word = self._read.next
        if self._read.sees("if"):
            return self._if(self._read.take())
        if self._read.sees("repeat"):
            return self._loop(self._read.take())
        if self._read.sees("parallel"):
            return self._parallel(self._read.take())
        if self._read.takes("break"):
            self._line_end()
            return Break(position=word.position)
        if self._read.takes("return"):
            value = self._read.expression()
            self._line_end()
            return Return(value, position=word.position)
        return self._binding()

    def _binding(self) -> Statement:
        name = self._read.next
        if name.kind is not TokenKind.NAME:
            raise self._read.unexpected(f"a step cannot begin with {name}")
        if not any(self._read.sees(sign, ahead=1) for sign in ("=", "+=")):
            raise self._read.unexpected(f"{name} does not begin a step", _hint_of(self._read, name))
        bound_name(self._read.take().text, name.position)
        if self._read.takes("+="):
            item = self._read.expression()
            self._line_end()
            return Append(name.text, item, position=name.position)
        self._read.expect("=")
        value = self._read.value_or_call()
        self._line_end()
        return Assign(name.text, value, position=name.position)

    def _if(self, word: Token) -> If:
        condition = self._read.expression()
        then = self._block(word)
        otherwise: tuple[Statement, ...] = ()
        if self._read.sees("else"):
            other = self._read.take()
            if self._read.sees("if"):
                # The chain has one `end`, which the last part takes.
                return If(condition, then, (self._else_if(),), position=word.position)
            otherwise = self._block(other)
        self._end(word)
        return If(condition, then, otherwise, position=word.position)

    def _else_if(self) -> If:
        self._depth += 1
        if self._depth > self._limits.max_depth:
            hint = f"at most {self._limits.max_depth} levels"
            what = "too many else if"
            raise refuse(ProblemKind.LIMIT, what, self._read.next.position, hint)
        found = self._if(self._read.take())
        self._depth -= 1
        return found

    def _loop(self, word: Token) -> Loop:
        times = self._times()
        index = None
        if self._read.takes("as"):
            name = self._read.name()
            index = bound_name(name.text, name.position)
        condition: Expression | None = None
        if self._read.takes("while"):
            condition = self._read.expression()
        body = self._block(word)
        self._end(word)
        return loop_of(times, index, condition, body, position=word.position)

    def _times(self) -> int:
        token = self._read.next
        number = self._read.expression()
        if not isinstance(number, NumberValue) or not isinstance(number.value, int):
            hint = f"a whole number from 1 to {self._limits.max_times}"
            what = "repeat needs its number of passes"
            raise refuse(ProblemKind.SYNTAX, what, token.position, hint)
        return number.value

    def _parallel(self, word: Token) -> Parallel:
        self._line_end()
        branches: list[Branch] = []
        while not self._read.sees("end"):
            if self._read.sees("branch"):
                branches.append(self._branch(self._read.take()))
            elif self._read.next.kind is TokenKind.NAME and self._read.sees("=", ahead=1):
                branches.append(self._short_branch())
            else:
                what = f"{self._read.next} does not begin a branch"
                hint = "write name = Operator(...), or branch name ... give value ... end"
                raise self._read.unexpected(what, hint)
        self._end(word)
        return Parallel(tuple(branches), position=word.position)

    def _short_branch(self) -> Branch:
        name = self._read.name()
        target = bound_name(name.text, name.position)
        self._read.expect("=")
        result = self._read.value_or_call()
        self._line_end()
        return Branch(target, (), result, position=name.position)

    def _branch(self, word: Token) -> Branch:
        name = self._read.name()
        target = bound_name(name.text, name.position)
        self._line_end()
        self._depth += 1
        if self._depth > self._limits.max_depth:
            hint = f"at most {self._limits.max_depth} levels"
            raise refuse(ProblemKind.LIMIT, "blocks nested too deeply", word.position, hint)
        body = self._steps()
        self._depth -= 1
        self._read.expect("give", f"the last line of a branch is: give value for {target}")
        result = self._read.value_or_call()
        self._line_end()
        self._end(word)
        return Branch(target, body, result, position=name.position)

    def _end(self, opened: Token) -> None:
        hint = f"close the {opened} of line {opened.position.line} with end"
        self._read.expect("end", hint)
        self._line_end()

    def _line_end(self) -> None:
        if self._read.next.kind is not TokenKind.LINE_END:
            raise self._read.unexpected(f"{self._read.next} comes after the end of the step")
        self._read.take()


def _hint_of(read: ExpressionReader, name: Token) -> str:
    if read.sees("(", ahead=1):
        return f"bind the result: name = {name}(...)"
    if name.text in ("for", "while"):
        return "write repeat NUMBER, or repeat NUMBER while CONDITION"
    if name.text in ("async", "def", "import", "class"):
        return "this is Python: read it as the Python form"
    return did_you_mean(name.text, _STEPS, otherwise=f"write name = ..., or {', '.join(_STEPS)}")
