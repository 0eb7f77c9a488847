"""Formulas, rewritten for sympy to read them as intended.

sympy's parser drops unknown tokens and reads two adjacent numbers as a sum. So a formula is first
rewritten unambiguously: every product with its sign, decimals as fractions, variables numbered. An
unreadable formula does not reach sympy.
"""

import math
import re

from assay_shared.answers.formulas.proof import proven

_MAX_DEPTH = 24
_MAX_TOKENS = 400
_TOKEN = re.compile(r"\s+|\d+(?:\.\d+)?|\.\d+|\\[A-Za-z]+|[A-Za-z]+|[-+*/^_!(){}\[\]|'°%=]")
_FUNCTIONS = frozenset(
    [
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan"),
        *("sinh", "cosh", "tanh", "ln", "log", "exp"),
    ]
)
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_OF_ANGLES = re.compile("sin|cos|tan|cot|sec|csc")
_ALIASES = {f"a{name}": inverse for name, inverse in _INVERSE.items()}
_CONSTANTS = {"pi": r"\pi", "e": "e", "i": "i"}
_GREEK = frozenset(
    [
        *("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta"),
        *("vartheta", "iota", "kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau"),
        *("upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta"),
        *("Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "emptyset", "infty"),
    ]
)
_PLAIN_NAMES = frozenset(("sqrt", "pi", "infty", "theta", "alpha")) | _FUNCTIONS | {*_ALIASES}
#: Commands to round down or up, with their closing commands; commands to repeat a term.
_ROUNDED = {"lfloor": "rfloor", "lceil": "rceil"}
_REPEATED = frozenset(("sum", "prod"))
#: Terms of sums and factors of products; nested sums and products multiply their numbers.
_MAX_TERMS = 1000
_DERIVATIVE = re.compile(r"\{d(?:\^\{?\d\}?)?[A-Za-z]*\}\{d[A-Za-z](?:\^\{?\d\}?)?\}")
_CALLED = frozenset("fghFGHPE")
_OPERATORS = {"+": "+", "-": "-", "*": r"\cdot", "cdot": r"\cdot", "/": "/", "div": "/"}


class UnreadableFormula(ValueError):
    """The text is not a formula of a supported kind."""


class _Writer:
    """A writer of a formula for the parser. `symbols` numbers the variables of both sides."""

    def __init__(self, text: str, symbols: dict[str, int]) -> None:
        self._tokens = _tokens(text)
        self._symbols = symbols
        self._place = 0
        #: The variables of the sums and products around this place, with their numbers of terms.
        self._counted: dict[str, int] = {}

    def write(self) -> str:
        written = self._sum(0)
        if self._place < len(self._tokens):
            raise UnreadableFormula(self._tokens[self._place])
        return written

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._place += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise UnreadableFormula(f"no {token}")

    def _sum(self, depth: int, until: str = "") -> str:
        """Return terms with their signs, up to a token outside of any term."""
        _check(depth)
        written: list[str] = []
        while True:
            if self._peek() in ("+", "-"):
                written.append(self._next())
                if self._peek() in ("+", "-"):
                    raise UnreadableFormula("two signs")
            written.append(self._product(depth, until))
            if self._peek() not in ("+", "-"):
                return " ".join(written)

    def _product(self, depth: int, until: str) -> str:
        written = [self._power(depth, until)]
        was_number = self._is_number(-1)
        while (token := self._peek()) and token != until and token not in ")]}+-":
            if token in _OPERATORS:
                written.append(_OPERATORS[self._next()])
                sign = self._next() if self._peek() == "-" else ""
                factor = self._power(depth, until)
                written.append(f"({sign}{factor})" if sign else factor)
            else:
                if self._is_number(0):
                    raise UnreadableFormula("a number behind a factor")
                mixed = was_number and token == "frac" and self._is_plain_fraction()
                factor = self._power(depth, until)
                if mixed:
                    written[-1] = f"({written[-1]}+{factor})"
                else:
                    written += [r"\cdot", factor]
            was_number = self._is_number(-1)
        return " ".join(written)

    def _is_number(self, offset: int) -> bool:
        at = self._place + offset
        return 0 <= at < len(self._tokens) and self._tokens[at][0] in "0123456789."

    def _is_plain_fraction(self) -> bool:
        """Return True if a fraction of whole numbers follows: after a number, it is mixed."""
        ahead = self._tokens[self._place + 1 : self._place + 7]
        return [t if t in "{}" else "0" * t.isdigit() for t in ahead] == list("{0}{0}")

    def _power(self, depth: int, until: str) -> str:
        _check(depth)
        base = self._atom(depth, until)
        while self._peek() in ("^", "!", "°", "%"):
            token = self._next()
            if token == "^":
                base = f"({base})^{{{self._argument(depth)}}}"
            elif token == "!":
                if self._peek() == "!":
                    raise UnreadableFormula("a double factorial")
                base = f"({base})!"
            else:
                part = r"\frac{\pi}{180}" if token == "°" else r"\frac{1}{100}"
                base = rf"(({base}) \cdot {part})"
        return base

    def _argument(self, depth: int) -> str:
        """Return the argument of a power, a root or a fraction: a group, or a single token."""
        _check(depth)
        if self._peek() == "{":
            return self._group("{", "}", depth)
        token = self._peek()
        if self._is_number(0) and len(token) > 1 and token.isdigit():
            self._tokens[self._place : self._place + 1] = [token[0], token[1:]]
        if token == "-":
            return self._next() + self._argument(depth + 1)
        return self._atom(depth + 1, "")

    def _group(self, opened: str, closed: str, depth: int) -> str:
        self._expect(opened)
        written = self._sum(depth + 1, closed)
        self._expect(closed)
        return written

    def _atom(self, depth: int, until: str) -> str:
        token = self._peek()
        if token in ("(", "[", "{"):
            return f"({self._group(token, {'(': ')', '[': ']', '{': '}'}[token], depth)})"
        if token == "|" and until != "|":
            return f"(|{self._group('|', '|', depth)}|)"
        self._next()
        if token and token[0] in "0123456789.":
            return _number(token)
        if token == "frac" and (derivative := self._derivative()):
            return self._numbered(derivative)
        if token in ("frac", "binom"):
            return rf"\{token}{{{self._argument(depth + 1)}}}{{{self._argument(depth + 1)}}}"
        if token == "sqrt":
            root = f"[{self._group('[', ']', depth)}]" if self._peek() == "[" else ""
            return rf"\sqrt{root}{{{self._argument(depth + 1)}}}"
        if token in _FUNCTIONS or token in _ALIASES:
            return self._function(_ALIASES.get(token, token), depth, until)
        if token in _ROUNDED:
            self._place -= 1
            inner = self._group(token, _ROUNDED[token], depth)
            return rf"\{token} {inner} \{_ROUNDED[token]}"
        if token in _REPEATED:
            return self._repeated(token, depth, until)
        return self._symbol(token, depth)

    def _repeated(self, name: str, depth: int, until: str) -> str:
        """Return a sum or product over a range of whole numbers, with the factors after it."""
        for token in "_{":
            self._expect(token)
        variable = self._next()
        self._expect("=")
        low = self._whole_number()
        for token in "}^":
            self._expect(token)
        high = self._whole_number(in_braces=self._peek() == "{")
        terms = high - low + 1
        if len(variable) != 1 or variable in self._counted or not 0 < terms <= _MAX_TERMS:
            raise UnreadableFormula("a sum without an end")
        self._counted[variable] = terms
        if math.prod(self._counted.values()) > _MAX_TERMS:
            raise UnreadableFormula("too many terms")
        counter = self._symbol(variable, depth)
        body = self._product(depth + 1, until)
        del self._counted[variable]
        return rf"(\{name}_{{{counter}={low}}}^{{{high}}} ({body}))"

    def _whole_number(self, in_braces: bool = False) -> int:
        if in_braces:
            self._expect("{")
        sign = -1 if self._peek() == "-" else 1
        self._place += sign < 0
        token = self._next()
        if not token.isdigit() or len(token) > 9:
            raise UnreadableFormula("no whole number")
        if in_braces:
            self._expect("}")
        return sign * int(token)

    def _function(self, name: str, depth: int, until: str) -> str:
        power = base = ""
        while self._peek() in ("^", "_"):
            if self._next() == "^":
                power = self._argument(depth)
            else:
                base = self._argument(depth)
        if base and name != "log":
            raise UnreadableFormula("a function with an index")
        if power.replace(" ", "") == "-1":
            if name not in _INVERSE:
                raise UnreadableFormula("an inverse or a reciprocal")
            name, power = _INVERSE[name], ""
        argument = self._called(depth, until)
        if name == "exp":
            written = f"(e)^{{{argument}}}"
        else:
            written = rf"\{name}{f'_{{{base}}}' if base else ''}({argument})"
        return f"({written})^{{{power}}}" if power else written

    def _called(self, depth: int, until: str) -> str:
        """Return a function's argument: in brackets, or the factors up to the next sign."""
        if self._peek() in ("(", "{"):
            return self._atom(depth + 1, until)
        written = [self._power(depth + 1, until)]
        while (
            (token := self._peek())
            and token != until
            and (self._is_letter(token) or token == "frac")
        ):
            written.append(self._power(depth + 1, until))
        return r" \cdot ".join(written)

    def _is_letter(self, token: str) -> bool:
        return token not in _FUNCTIONS and (
            (len(token) == 1 and token.isalpha()) or token in _GREEK or token == "pi"
        )

    def _symbol(self, token: str, depth: int) -> str:
        if not (token.isalpha() and (len(token) == 1 or token in _GREEK or token == "pi")):
            raise UnreadableFormula(token or "the end")
        name = token
        if self._peek() == "_":
            self._next()
            name += f"_{self._argument(depth)}"
        while self._peek() == "'":
            name += self._next()
        if name in _CONSTANTS and name not in self._counted:
            return _CONSTANTS[name]
        if token in _CALLED and self._peek() == "(":
            name += self._group("(", ")", depth)
        return self._numbered(name)

    def _numbered(self, name: str) -> str:
        return f"x_{{{self._symbols.setdefault(name, len(self._symbols) + 1)}}}"

    def _derivative(self) -> str:
        """Return a derivative after "frac" as a single name (its d's are not factors), or ""."""
        if self._tokens[self._place + 1 : self._place + 2] != ["d"]:
            return ""
        for end in range(self._place + 6, self._place + 20):
            name = "".join(self._tokens[self._place : end])
            if _DERIVATIVE.fullmatch(name):
                self._place = end
                return name
        return ""


def _check(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise UnreadableFormula("nested too deep")


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    for found in _TOKEN.finditer(text):
        if found.start() != place:
            raise UnreadableFormula(text[place])
        place = found.end()
        token = found.group()
        if token.isspace():
            after_index = len(tokens[-2:]) == 2 and tokens[-2] in "_^" and len(tokens[-1]) == 1
            is_number = tokens and tokens[-1][0].isdigit() and not after_index
            if is_number and text[place : place + 1].isdigit():
                raise UnreadableFormula("two numbers")
        elif token[0] == "\\":
            tokens.append(token[1:])
        elif token.isalpha() and token not in _PLAIN_NAMES:
            tokens.extend(token)
        else:
            tokens.append(token)
    if place != len(text) or not tokens or len(tokens) > _MAX_TOKENS:
        raise UnreadableFormula("not a formula")
    return tokens


def _number(token: str) -> str:
    whole, dot, digits = token.partition(".")
    return rf"\frac{{{int(whole + digits)}}}{{{10 ** len(digits)}}}" if dot else str(int(whole))


def equal_formulas(answer: str, reference: str, but_for_a_factor: bool = False) -> bool:
    """Return True if both plain formulas are equal for all values of their variables.

    `but_for_a_factor`: return True if a rational factor is the only difference, as for the sides of
    two equations with the same solutions; for polynomials only.
    """
    symbols: dict[str, int] = {}
    try:
        first, second = (_Writer(text, symbols).write() for text in _angles(answer, reference))
    except UnreadableFormula:
        return False
    if first == second:
        return True
    if any(symbols.get(name) for name in ("infty", "emptyset")):
        return False
    return proven(first, second, but_for_a_factor)


def is_formula(text: str) -> bool:
    """Return True if a plain text can be compared as a formula."""
    try:
        _Writer(text, {}).write()
    except UnreadableFormula:
        return False
    return True


def _angles(answer: str, reference: str) -> tuple[str, str]:
    """Return both, without the reference's degree sign if the answer has no degrees and no pi."""
    if "°" in answer or "pi" in answer or _OF_ANGLES.search(reference):
        return answer, reference
    return answer, reference.replace("°", "")
