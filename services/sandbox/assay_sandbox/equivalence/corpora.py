"""The data sets as subjects: the right and wrong programs of each problem, with its tests."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from assay_sandbox.equivalence.cpython_suite import cpython_subjects
from assay_sandbox.equivalence.odd_programs import odd_subjects
from assay_sandbox.equivalence.plain import script_of
from assay_sandbox.equivalence.subjects import StdinTest, Subject, Way
from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines

_ASSERT_WAYS: tuple[Way, ...] = ("assert", "assert outside")
#: Programs that read their whole input and print text that depends on all of it.
_READERS = {
    "bytes": """\
import sys
data = sys.stdin.buffer.read()
print(len(data), hash(data))
sys.stdout.buffer.write(data[::-1])
""",
    "lines": """\
import sys
for number, line in enumerate(sys.stdin):
    print(number, line, end="")
print(sorted(set(open(0, closefd=False).read())))
""",
    "input": """\
words = []
while True:
    try:
        words += input().split()
    except EOFError:
        break
print(len(words), *set(words))
raise SystemExit(len(words))
""",
}


def _row(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DatasetError("a row is not a JSON object")
    return value


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return read_json_lines(path, _row)


def _judged(name: str, corpus: str, code: str, cases: tuple[str, ...]) -> Iterator[Subject]:
    """Yield a program with test code in each way: as a single script, and judged by cases."""
    yield Subject(name, corpus, "script", script_of(code, cases))
    for way in _ASSERT_WAYS:
        yield Subject(name, corpus, way, code, cases=cases)


def _checked(row: Mapping[str, Any], corpus: str, answer: str, version: str) -> Iterator[Subject]:
    """Yield a row in HumanEval's form: prompt and answer, with a call of the test's `check`."""
    test = f"{row['test']}\ncheck({row['entry_point']})"
    name = f"{row['task_id']}{version}"
    yield from _judged(name, corpus, row["prompt"] + answer, (test,))


def humaneval(data: Path) -> Iterator[Subject]:
    for row in _rows(data / "HumanEval.jsonl.gz"):
        yield from _checked(row, "humaneval", row["canonical_solution"], "")


def humaneval_plus(data: Path) -> Iterator[Subject]:
    """Yield each solution with its tests, with its base tests, and printing its results."""
    for row in _rows(data / "evalplus/humaneval_plus_originfmt.jsonl.gz"):
        yield from _checked(row, "humaneval_plus", row["canonical_solution"], " tests")
    for row in _rows(data / "evalplus/humaneval_plus.jsonl.gz"):
        yield from _checked(row, "humaneval_plus", row["canonical_solution"], " base")
        yield Subject(f"{row['task_id']} inputs", "humaneval_plus", "script", _printing(row))


def _printing(row: Mapping[str, Any]) -> str:
    """Return a program to print the solution's result for each input."""
    inputs = json.dumps(row["base_input"] + row["plus_input"])
    solution = row["prompt"] + row["contract"] + row["canonical_solution"]
    lines = (
        solution,
        "import json",
        f"for arguments in json.loads({inputs!r}):",
        "    try:",
        f"        print(repr({row['entry_point']}(*arguments)))",
        "    except BaseException as error:",
        "        print(type(error), error)",
    )
    return "\n".join(lines) + "\n"


def mbpp(data: Path) -> Iterator[Subject]:
    for row in _rows(data / "evalplus/mbpp_974.jsonl.gz"):
        code = f"{row['code']}\n{row['test_setup_code']}"
        cases = (*row["test_list"], *row["challenge_test_list"])
        yield from _judged(f"MBPP/{row['task_id']}", "mbpp", code, cases)


def mbpp_sanitized(data: Path) -> Iterator[Subject]:
    for row in _rows(data / "evalplus/mbpp_sanitized.jsonl.gz"):
        code = "\n".join((*row["test_imports"], row["code"]))
        yield from _judged(
            f"MBPP/{row['task_id']}", "mbpp_sanitized", code, tuple(row["test_list"])
        )


def quixbugs(data: Path) -> Iterator[Subject]:
    for row in _rows(data / "buggy_code/quixbugs_python.jsonl.gz"):
        for version, field in (("right", "solution"), ("buggy", "buggy_program")):
            yield from _judged(f"{row['name']} {version}", "quixbugs", row[field], (row["tests"],))


def humanevalpack(data: Path) -> Iterator[Subject]:
    """Yield the right and the buggy version of each solution; the tests call `check` themselves."""
    for row in _rows(data / "buggy_code/humanevalpack_python_164.jsonl.gz"):
        for version, field in (("right", "canonical_solution"), ("buggy", "buggy_solution")):
            code = row["prompt"] + row[field]
            yield from _judged(f"{row['task_id']} {version}", "humanevalpack", code, (row["test"],))


def model_solutions(data: Path) -> Iterator[Subject]:
    """Yield programs written by models, labelled right or wrong."""
    for row in _rows(data / "buggy_code/ldb_codellama_humaneval_164.jsonl.gz"):
        test = f"{row['test']}\ncheck({row['entry_point']})"
        name = f"codellama {row['task_id']} {_label(row)}"
        yield from _judged(name, "model_solutions", row["solution"], (test,))
    for row in _rows(data / "buggy_code/ldb_gpt35_mbpp_500.jsonl.gz"):
        name = f"gpt35 {row['task_id']} {_label(row)}"
        yield from _judged(name, "model_solutions", row["solution"], (row["test"],))


def _label(row: Mapping[str, Any]) -> str:
    return "right" if row["is_solved"] else "wrong"


def code_contests(data: Path) -> Iterator[Subject]:
    """Yield each solution as a script for each test's input, and judged by all its tests."""
    for row in _contests(data):
        tests = tuple(StdinTest(test["input"], test["output"]) for test in row["tests"])
        for number, test in enumerate(tests):
            name = f"{row['id']} {number}"
            yield Subject(name, "code_contests", "script", row["solution"], stdin=test.stdin)
        yield Subject(row["id"], "code_contests", "stdin", row["solution"], tests=tests)


def sandboxfusion(data: Path) -> Iterator[Subject]:
    """Yield programs for SandboxFusion's problems, which come without solutions.

    If CodeContests has the problem, its solution runs with all tests. Each input also goes to a
    program that reads it whole, and to a random solution, mostly of another problem: such a
    solution ends in ways its author never meant.
    """
    contests = list(_contests(data))
    by_name = {row["name"].strip(): row["solution"] for row in contests}
    strangers = sorted(row["solution"] for row in contests)
    random = Random("strangers")
    for row in _rows(data / "code_contests/sandboxfusion_20.jsonl.gz"):
        tests = tuple(StdinTest(test["input"], test["output"]) for test in row["tests"])
        solution = by_name.get(row["name"].strip())
        if solution is not None:
            yield Subject(f"{row['name']}", "sandboxfusion", "stdin", solution, tests=tests)
        for number, test in enumerate(tests):
            reader = random.choice(sorted(_READERS))
            codes = {reader: _READERS[reader], "stranger": random.choice(strangers)}
            if solution is not None:
                codes["solution"] = solution
            for title, code in codes.items():
                name = f"{row['name']} {number} {title}"
                yield Subject(name, "sandboxfusion", "script", code, stdin=test.stdin)


def _contests(data: Path) -> Iterator[dict[str, Any]]:
    return _rows(data / "code_contests/codecontests_150.jsonl.gz")


#: The data sets by name. The last two are not in the data folder: `odd` is in this package, and
#: `cpython` comes with Python.
CORPORA: Mapping[str, Callable[[Path], Iterator[Subject]]] = {
    "humaneval": humaneval,
    "humaneval_plus": humaneval_plus,
    "mbpp": mbpp,
    "mbpp_sanitized": mbpp_sanitized,
    "quixbugs": quixbugs,
    "humanevalpack": humanevalpack,
    "model_solutions": model_solutions,
    "code_contests": code_contests,
    "sandboxfusion": sandboxfusion,
    "odd": odd_subjects,
    "cpython": cpython_subjects,
}


@dataclass(frozen=True)
class Choice:
    """A choice of subjects: from these data sets (empty: from all), with `match` in their name, at
    most `limit` of each set, sampled by `seed`.
    """

    sets: tuple[str, ...] = ()
    match: str = ""
    limit: int | None = None
    seed: int = 0


def subjects_of(choice: Choice, data: Path) -> list[Subject]:
    """Return the chosen subjects, shuffled by the seed.

    Raises:
        DatasetError: a name is not in `CORPORA`, or a file cannot be read.
    """
    chosen = []
    for name in choice.sets or tuple(CORPORA):
        if name not in CORPORA:
            raise DatasetError(f"{name!r} is not one of {', '.join(CORPORA)}", field="--set")
        found = [subject for subject in CORPORA[name](data) if choice.match in subject.id]
        if choice.limit is not None and choice.limit < len(found):
            found = Random(f"{choice.seed} {name}").sample(found, choice.limit)
        chosen += found
    # Shuffled, so that an interrupted run has compared subjects of all sets.
    Random(choice.seed).shuffle(chosen)
    return chosen
