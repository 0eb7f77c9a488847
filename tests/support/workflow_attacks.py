"""Random and hostile workflow sources, and a process that reads them all under watch.

`python -m tests.support.workflow_attacks NUMBER SEED FOLDER` prints a JSON report.
"""

import json
import random
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from assay_reward.workflows.language.problems import InvalidWorkflow
from assay_reward.workflows.language.source import WorkflowForm, print_workflow
from assay_reward.workflows.repair.repair import repair_source
from tests.support.workflow_programs import ProgramWriter

HEAD = "async def workflow(problem):\n    "
_VOCABULARY = (
    "if else end repeat as while parallel branch give return break and or not in true false async "
    "def workflow problem await for range asyncio gather append lambda class import exec eval self "
    "Custom Test custom x y 3 0.5 1e9 10**9 ( ) [ ] { } = += == != < : , . \" ' { } \\ # \n \n \n  "
    '__class__ __import__ f" """ -> * ** @ ; ! \x00 \t \u2028 \u202e Ｃustom Сustom'
)
WORDS = _VOCABULARY.split(" ")
#: Each would leave the file {mark} if any of it ran.
PAYLOADS = (
    "open({mark!r}, 'w')",
    "__import__('pathlib').Path({mark!r}).touch()",
    "x = problem.__class__.__mro__[1].__subclasses__()",
    "x = (lambda: open({mark!r}, 'w'))()",
    "x = f\"{{open({mark!r}, 'w')}}\"",
    'x = f"{{problem.__class__.__init__.__globals__}}"',
    'x = "{{problem.__class__}}"\n    return x',
    'x = "{{0.__globals__[os]}}" \n    return "%s" % x',
    "x = [open({mark!r}, 'w') for _ in range(1)]",
    "x = await Custom(input=open({mark!r}, 'w'))",
    "exec(\"open({mark!r}, 'w')\")",
    "x = getattr(problem, '__class__')",
    "@open({mark!r}, 'w')\n    def f(): pass",
    "def f(a=open({mark!r}, 'w')): return a",
    "class A(metaclass=open({mark!r}, 'w')): pass",
    "import os; os.system('touch {mark}')",
    "match problem:\n        case str(): open({mark!r}, 'w')",
    "x: open({mark!r}, 'w') = 3",
    "x = yield open({mark!r}, 'w')",
    "return await workflow(problem)",
    "for i in range(10**9):\n        x = problem",
    "while True:\n        x = problem",
    "x = '\\N{{BULLET}}' + '\\x00'",
    "p\u0433oblem = 3\n    return p\u0433oblem",
)
NESTED = (
    ("x = ", "(", "a", ")"),
    ("x = ", "[", "a", "]"),
    ("x = ", "{a: ", "b", "}"),
    ("x = ", "not ", "a", ""),
    ("x = ", "-", "1", ""),
    ("x = ", "lambda: ", "a", ""),
    ("x = ", "await ", "a", ""),
    ("x = ", "a if a else ", "a", ""),
    ("x = ", "f(", "a", ")"),
    ("x = a", ".b", "", ""),
    ("x = a", "[0]", "", ""),
    ("x = a", "()", "", ""),
    ("x = a", " + a", "", ""),
    ("x = a", " and a", "", ""),
    ("x = a", " < a", "", ""),
    ('x = f"', "{", "a", "}"),
    ("", "if a\n", "x = a\n", "end\n"),
    ("", "repeat 2\n", "x = a\n", "end\n"),
    ("if a\nx = a\n", "else if a\nx = a\n", "", "end\n"),
    ("", "parallel\nbranch a\n", "", "give a\nend\nend\n"),
    ("x = ", '"{', "a", '}"'),
)


def _soup(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 400)))


def _noise(chance: random.Random) -> str:
    codes = (chance.choice((127, 255, 0x3000, 0x10FFFF)) for _ in range(chance.randint(1, 500)))
    return "".join(chr(chance.randint(0, top)) for top in codes)


def _mutated(chance: random.Random) -> str:
    tree = ProgramWriter(chance).workflow()
    source = print_workflow(tree, chance.choice(list(WorkflowForm)))
    for _ in range(chance.randint(1, 5)):
        at, to = chance.randrange(len(source) + 1), chance.randrange(len(source) + 1)
        piece = source[min(at, to) : max(at, to)][:60]
        word = chance.choice((*WORDS, "", "", piece))
        source = source[:at] + word + source[at + chance.choice((0, 0, 1, 5)) :]
    return source


def _nested(chance: random.Random) -> str:
    start, left, middle, right = chance.choice(NESTED)
    depth = chance.choice((3, 20, 30, 100, 500, 3_000, 16_000))
    head = chance.choice(("", HEAD))
    return head + start + left * depth + middle + right * depth


def _indented(chance: random.Random) -> str:
    depth = chance.choice((5, 30, 99, 101, 150))
    header = chance.choice(("if a:", "for _ in range(2):", "async def f():", "elif a:"))
    lines = [" " * (level + 1) + header for level in range(depth)]
    return "\n".join(["async def workflow(problem):", *lines, " " * (depth + 1) + "x = a"])


def _payload(chance: random.Random) -> str:
    return chance.choice(("", HEAD, HEAD)) + chance.choice(PAYLOADS)


def _long(chance: random.Random) -> str:
    unit = chance.choice(("a", "(", '"', "x = y\n", "é", "\n", "{", "\\", "#", "'''", "\x00", " "))
    size = chance.choice((4_000, 16_000, 16_384, 1_000_000))
    return chance.choice(("", HEAD, 'x = "')) + unit * (size // len(unit))


def _many(chance: random.Random) -> str:
    """Return many steps with many names: work that grows faster than the source must be bounded."""
    number = chance.choice((50, 300, 600))
    step = chance.choice(
        (
            "n{0} = n{1}",
            'if problem == ""\nn{0} = problem\nend\nm = n{0}',
            "n{0} = custom(input=n{1})",
            "n{0} += n{1}",
            'n{0} = "{{n{1}}}{{n{1}}}"',
        )
    )
    lines = [step.format(index, chance.choice((index + 1, index - 1))) for index in range(number)]
    loops = chance.randint(0, 5)
    return "\n".join([*["repeat 16"] * loops, *lines, *["end"] * loops, "return problem"])


KINDS: tuple[Callable[[random.Random], str], ...] = (
    _soup,
    _noise,
    _mutated,
    _mutated,
    _mutated,
    _nested,
    _indented,
    _payload,
    _long,
    _many,
)


def attacks(number: int, seed: int, mark: str) -> Iterator[str]:
    """Return this many hostile sources; some would make the file `mark` if they ran."""
    chance = random.Random(seed)
    for index in range(number):
        source = KINDS[index % len(KINDS)](chance)
        yield source.replace("{mark!r}", repr(mark)).replace("{mark}", mark)


def _resident_kib() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize() // 1024


class _Watch:
    """Reads sources, and keeps verdicts, times, memory and what Python reports as events."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.slowest_s = 0.0
        self.slowest = ""
        self.events: Counter[str] = Counter()
        self.is_watching = False

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_watching:
            self.events[f"open {arguments[0]}" if event == "open" else event] += 1

    def read(self, source: str) -> None:
        for form in WorkflowForm:
            self.is_watching = True
            started = time.thread_time()
            try:
                repaired = repair_source(source, form)
                repaired.diff()
                verdict = "valid" if repaired.checked.valid else "problems"
            except InvalidWorkflow:
                verdict = "refused"
            took = time.thread_time() - started
            self.is_watching = False
            self.verdicts[f"{form}: {verdict}"] += 1
            if took > self.slowest_s:
                self.slowest_s, self.slowest = took, source[:200]


def main(number: int, seed: int, folder: Path) -> dict[str, object]:
    """Read the corpus; return counts, the slowest time, memory and events."""
    watch = _Watch()
    mark = folder / "mark"
    for source in attacks(200, seed + 1, str(mark)):
        watch.read(source)  # imports, caches
    sys.addaudithook(watch.hook)
    watch.events.clear()
    watch.verdicts.clear()
    before = _resident_kib()
    for source in attacks(number, seed, str(mark)):
        watch.read(source)
    return {
        "verdicts": dict(watch.verdicts),
        "slowest_s": watch.slowest_s,
        "slowest": watch.slowest,
        "grown_kib": _resident_kib() - before,
        "events": dict(watch.events),
        "ran": mark.exists(),
    }


if __name__ == "__main__":
    # A small stack, as threads have with musl: CPython's parser would overflow it.
    threading.stack_size(512 * 1024)
    report: dict[str, object] = {}
    thread = threading.Thread(
        target=lambda: report.update(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
    )
    thread.start()
    thread.join()
    sys.stdout.write(json.dumps(report))
