"""IFEval's instructions, compared with lm-eval's implementation of them."""

import gzip
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay_reward.answers.constraints.instructions import Instructions, follows, follows_loosely
from tests.support.reward.ifeval_answers import answers_to

_ROOT = Path(__file__).parents[5]
_ANSWERS_A_ROW = 4
#: Kinds that differ for a known reason, and the largest share of verdicts that may.
_KNOWN = {
    # Another model tells the language.
    "language:response_language": 0.08,
    "change_case:english_capital": 0.08,
    "change_case:english_lowercase": 0.08,
    # Sentences end where their marks are, not where a trained splitter says so.
    "length_constraints:number_sentences": 0.12,
    # Words are split at spaces and punctuation, not by Treebank's rules: "U.S." are two.
    "change_case:capital_word_frequency": 0.05,
    # The official one counts a random letter in place of a sign, such as # or !.
    "keywords:letter_frequency": 0.05,
}


@pytest.fixture(scope="module")
def official() -> Path:
    """An interpreter with lm-eval; the tests are skipped without one."""
    named = os.environ.get("ASSAY_LM_EVAL")
    interpreter = Path(named) if named else _ROOT / ".venv-lm-eval" / "bin" / "python"
    if not interpreter.exists():
        pytest.skip("needs lm-eval: make lm-eval, or name an interpreter in ASSAY_LM_EVAL")
    return interpreter


@pytest.mark.slow
def test_two_thousand_answers_follow_what_the_official_implementation_says(
    official: Path, data_folder: Path
) -> None:
    with gzip.open(data_folder / "ifeval" / "input_data.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        row["answers"] = answers_to(row, _ANSWERS_A_ROW, seed=16)
    assert sum(len(row["answers"]) for row in rows) > 2000
    num_verdicts: Counter[str] = Counter()
    different: Counter[str] = Counter()
    followed: Counter[str] = Counter()
    for row, verdicts in zip(rows, ask(official, rows), strict=True):
        for name, ours, theirs in compared(row, verdicts):
            num_verdicts[name] += 1
            followed[name] += theirs
            different[name] += ours != theirs
    shares = {name: number / num_verdicts[name] for name, number in different.items()}
    over = {name: share for name, share in shares.items() if share > _KNOWN.get(name, 0.0)}
    assert not over
    assert len(num_verdicts) == 25
    # Of every kind there are answers that follow and answers that do not.
    assert all(0 < followed[name] < num_verdicts[name] for name in num_verdicts)


def ask(official: Path, rows: list[dict[str, Any]]) -> list[Any]:
    """Return the official verdicts on each row's answers."""
    script = _ROOT / "tests/support/reward/ifeval_official.py"
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run(
        [official, script], input=lines, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def compared(row: dict[str, Any], verdicts: Any) -> list[tuple[str, bool, bool]]:
    """The kind of each instruction, with our verdict and theirs, strict and loose ones."""
    constraints = Instructions.model_validate(
        {"instruction_id_list": row["instruction_id_list"], "kwargs": row["kwargs"]}
    ).constraints
    found = []
    for answer, (strictly, loosely) in zip(row["answers"], verdicts, strict=True):
        for one, strict, loose in zip(constraints, strictly, loosely, strict=True):
            found.append((one.name, follows(one, answer), strict))
            found.append((one.name, follows_loosely(one, answer), loose))
    return found
