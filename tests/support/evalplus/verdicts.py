"""Prints evalplus's verdict of each completion on standard input; run by its own interpreter.

A line in:  {"dataset", "program", "entry_point", "inputs", "expected", "canonical", "atol"}
A line out: true or false
"""

import json
import sys
import time
from typing import Any

from evalplus.eval import untrusted_check


def expected_of(row: dict[str, Any]) -> tuple[list[Any], list[float]]:
    """Return the expected values, and the seconds of the canonical solution for each."""
    names: dict[str, Any] = {}
    exec(row["canonical"], names)
    call, values, times = names[row["entry_point"]], [], []
    for given in json.loads(json.dumps(row["inputs"])):
        started = time.time()
        values.append(call(*given))
        times.append(time.time() - started)
    return (row["expected"] if row["expected"] is not None else values), times


def main() -> None:
    known: dict[tuple[str, str], tuple[list[Any], list[float]]] = {}
    for line in sys.stdin:
        row = json.loads(line)
        key = row["dataset"], row["task_id"]
        if key not in known:
            known[key] = expected_of(row)
        expected, times = known[key]
        verdict, _ = untrusted_check(
            row["dataset"],
            row["program"],
            row["inputs"],
            row["entry_point"],
            expected,
            row["atol"],
            times,
            fast_check=True,
        )
        sys.stdout.write(json.dumps(verdict == "pass") + "\n")


if __name__ == "__main__":
    main()
