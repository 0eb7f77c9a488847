"""Ready-made checkers, by name, for problems with several right answers.

Each checker is a program as a client could send it, see `Checker`.
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
    # Accepts the same words, in any order.
    "tokens_any_order": _READ + 'sys.exit(Counter(words("output")) != Counter(words("answer")))',
    # Accepts the same lines in the same order, with the words of each line in any order.
    "tokens_any_order_in_lines": _READ
    + 'sys.exit([Counter(x) for x in lines("output")] != [Counter(x) for x in lines("answer")])',
    # Accepts the same lines in any order, whatever the whitespace between their words.
    "lines_any_order": _READ
    + 'sys.exit(Counter(map(tuple, lines("output"))) != Counter(map(tuple, lines("answer"))))',
    # Accepts the same words in upper or lower case.
    "tokens_any_case": _READ
    + 'sys.exit(list(map(str.lower, words("output"))) != list(map(str.lower, words("answer"))))',
}
