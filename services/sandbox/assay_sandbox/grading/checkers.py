"""Ready-made checkers, by name, for problems with several right answers.

Each is a program as a client could send it, see `Checker`.
"""

_READ = """import sys
from collections import Counter
def words(name):
    with open(name, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().split()
def lines(name):
    with open(name, encoding="utf-8", errors="surrogateescape") as file:
        return [line.split() for line in file.read().strip().split("\\n")]
"""
NAMED = {
    # The same words, in any order.
    "tokens_any_order": _READ + 'sys.exit(Counter(words("output")) != Counter(words("answer")))',
    # The same lines in the same order, of the same words each in any order.
    "tokens_any_order_in_lines": _READ
    + 'sys.exit([Counter(x) for x in lines("output")] != [Counter(x) for x in lines("answer")])',
    # The same lines in any order, without regard to the whitespace between their words.
    "lines_any_order": _READ
    + 'sys.exit(Counter(map(tuple, lines("output"))) != Counter(map(tuple, lines("answer"))))',
    # The same words without regard to case.
    "tokens_any_case": _READ
    + 'sys.exit(list(map(str.lower, words("output"))) != list(map(str.lower, words("answer"))))',
}
