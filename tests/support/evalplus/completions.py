"""Completions made of canonical solutions: right ones, and ones with a planted fault."""

import ast
import gzip
import json
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Faults in the order in which they are planted, over and over; the endless loop is rare.
_FAULTS = ("none", "shifted", "none", "wrong", "shifted", "syntax", "none", "runtime")
_EVERY_ENDLESS = 61


@dataclass(frozen=True)
class MadeCompletion:
    """A completion of a task: the whole program, the part that a policy writes, and its tests."""

    task_id: str
    dataset: str
    text: str
    program: str
    entry_point: str
    inputs: list[list[Any]]
    #: Null where the canonical solution tells them.
    expected: list[Any] | None
    canonical: str
    atol: float


def read_rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def human_eval(folder: Path, per_task: int) -> Iterator[MadeCompletion]:
    """Yield completions of HumanEval+; the plus file has the inputs."""
    number = 0
    for row in read_rows(folder / "humaneval_plus.jsonl.gz"):
        canonical = row["prompt"] + row["canonical_solution"]
        for _ in range(per_task):
            body = _planted(row["canonical_solution"], row["prompt"], number)
            number += 1
            yield MadeCompletion(
                task_id=row["task_id"],
                dataset="humaneval",
                text=body,
                program=row["prompt"] + body,
                entry_point=row["entry_point"],
                inputs=row["base_input"] + row["plus_input"],
                expected=None,
                canonical=canonical,
                atol=row["atol"],
            )


def mbpp(folder: Path, most: int) -> Iterator[MadeCompletion]:
    """Yield completions of MBPP's tasks whose tests all compare a call with a literal."""
    number = 0
    for row in read_rows(folder / "mbpp_974.jsonl.gz"):
        tests = [_call_of(one) for one in row["test_list"]]
        found = [one for one in tests if one is not None]
        is_clear = len(found) == len(tests) and len({name for name, _, _ in found}) == 1
        if row["test_setup_code"] or not is_clear or not 11 <= row["task_id"] <= 510:
            continue
        code = row["code"].replace("\r\n", "\n").replace("\t", "    ")
        program = _planted(code, "", number)
        number += 1
        yield MadeCompletion(
            task_id=str(row["task_id"]),
            dataset="mbpp",
            text=program,
            program=program,
            entry_point=found[0][0],
            inputs=[args for _, args, _ in found],
            expected=[expected for _, _, expected in found],
            canonical=code,
            atol=0.0,
        )
        if number == most:
            return


def _call_of(test: str) -> tuple[str, list[Any], Any] | None:
    """Return name, arguments and expected value of `assert f(...) == literal`; None of others."""
    try:
        (statement,) = ast.parse(test).body
        compared = statement.test  # type: ignore[attr-defined]
        call, (expected,) = compared.left, compared.comparators
        if not isinstance(compared.ops[0], ast.Eq) or call.keywords:
            return None
        arguments = [ast.literal_eval(one) for one in call.args]
        value = ast.literal_eval(expected)
    except (SyntaxError, AttributeError, ValueError):
        return None
    # JSON would make lists of tuples, and texts of keys.
    kept = json.loads(json.dumps([arguments, value], default=str)) == [arguments, value]
    return (call.func.id, arguments, value) if kept else None


def _planted(code: str, prefix: str, number: int) -> str:
    """Return the code with the fault of its number; the code may be the rest of `prefix`."""
    if number % _EVERY_ENDLESS == _EVERY_ENDLESS - 1:
        return _in_last_function(code, prefix, lambda indent: f"{indent}while True: pass\n")
    fault = _FAULTS[number % len(_FAULTS)]
    if fault == "shifted":
        return _shifted(code, prefix, number)
    first_lines = {
        "wrong": lambda indent: f"{indent}return 'no such value'\n",
        "syntax": lambda indent: f"{indent}return (\n",
        "runtime": lambda indent: f"{indent}raise ValueError('planted')\n",
    }
    return code if fault == "none" else _in_last_function(code, prefix, first_lines[fault])


def _in_last_function(code: str, prefix: str, line: Callable[[str], str]) -> str:
    """Return the code with a first line in its last function."""
    if prefix:
        return line("    ") + code.lstrip("\n")
    lines = code.splitlines(keepends=True)
    at = max(i for i, one in enumerate(lines) if one.startswith("def "))
    return "".join([*lines[: at + 1], line("    "), *lines[at + 1 :]])


def _shifted(code: str, prefix: str, number: int) -> str:
    """Return the code with one more in one of its whole numbers; without any, the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in the data's own texts
        tree = ast.parse(prefix + code)
    offset = prefix.count("\n")
    places = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.lineno > offset
    ]
    if not places:
        return code
    node = random.Random(number).choice(places)
    lines = (prefix + code).splitlines(keepends=True)
    line = lines[node.lineno - 1].encode()
    assert isinstance(node.value, int)
    changed = f"({node.value + 1})".encode()
    whole = line[: node.col_offset] + changed + line[node.end_col_offset :]
    lines[node.lineno - 1] = whole.decode()
    return "".join(lines)[len(prefix) :]
