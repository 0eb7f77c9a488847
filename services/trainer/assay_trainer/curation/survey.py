"""Facts of a set of rows for a person: some rows, their lengths, and the balance of classes."""

import random
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines
from assay_trainer.data.governance.manifest import ImportManifest, checked_rows

#: Returns the number of tokens of a row's messages and of its answer.
CountTokens = Callable[[list[dict[str, str]], str], tuple[int, int]]
_QUANTILES = {"median": 0.5, "90%": 0.9, "99%": 0.99, "longest": 1.0}
_MAX_CLASSES = 12
_TAGS = ("domain", "family", "difficulty")


@dataclass(frozen=True)
class ShownRow:
    """A row as a person reads it: its place in the file, messages, answers, and other facts."""

    number: int
    name: str
    role: str
    messages: list[dict[str, str]]
    answers: dict[str, str]
    facts: dict[str, str]


@dataclass(frozen=True)
class Lengths:
    """Lengths of one part of all rows, in characters or tokens."""

    part: str
    unit: str
    values: "array[int]"

    @property
    def quantiles(self) -> dict[str, int]:
        """Return the median and the greater lengths, by the nearest rank."""
        ordered = sorted(self.values)
        last = len(ordered) - 1
        return {name: ordered[round(share * last)] for name, share in _QUANTILES.items()}

    def share_over(self, limit: int) -> float:
        """Return the share of rows with a greater length."""
        return sum(value > limit for value in self.values) / len(self.values)


@dataclass
class Survey:
    """All facts of a folder or a file."""

    name: str
    manifest: ImportManifest | None
    num_rows: int = 0
    rows: list[ShownRow] = field(default_factory=list)
    lengths: list[Lengths] = field(default_factory=list)
    #: The number of rows by class, of each thing that rows are told apart by.
    classes: dict[str, Counter[str]] = field(default_factory=dict)

    def balance(self, name: str) -> list[tuple[str, int, float]]:
        """Return the greatest classes with their numbers and shares, and the others as one."""
        counts = self.classes[name]
        total = counts.total()
        shown = counts.most_common(_MAX_CLASSES)
        rest = total - sum(number for _, number in shown)
        rows = [*shown, *([(f"{len(counts) - len(shown)} others", rest)] if rest else [])]
        return [(one, number, number / total) for one, number in rows]


def survey(path: Path, num: int, seed: int, count_tokens: CountTokens | None = None) -> Survey:
    """Read a folder of `assay data import`, or a JSONL file of tasks or pairs.

    Every row has the same chance to be shown; the same seed shows the same rows.

    Raises:
        DatasetError: a row cannot be read, or there is none.
    """
    manifest, file = checked_rows(path) if path.is_dir() else (None, path)
    found = Survey(path.name, manifest)
    rng = random.Random(f"{seed}/show")
    units = ["characters", *(["tokens"] if count_tokens else [])]
    values = {(part, unit): array("L") for unit in units for part in ("prompt", "answer")}
    for row in read_json_lines(file, _shown_row):
        shown = ShownRow(found.num_rows + 1, **row)
        found.num_rows += 1
        _keep(found.rows, shown, found.num_rows, num, rng)
        for name, value in {"role": shown.role, **shown.facts}.items():
            found.classes.setdefault(name, Counter())[value] += 1
        answer = next(iter(shown.answers.values()), "")
        values["prompt", "characters"].append(sum(len(one["content"]) for one in shown.messages))
        values["answer", "characters"].append(len(answer))
        if count_tokens is not None:
            prompt_tokens, answer_tokens = count_tokens(shown.messages, answer)
            values["prompt", "tokens"].append(prompt_tokens)
            values["answer", "tokens"].append(answer_tokens)
    if not found.num_rows:
        raise DatasetError(f"{path} has no rows", field="FOLDER")
    found.rows.sort(key=lambda one: one.number)
    found.lengths = [Lengths(part, unit, one) for (part, unit), one in values.items()]
    return found


def _keep(rows: list[ShownRow], row: ShownRow, number: int, num: int, rng: random.Random) -> None:
    """Keep a row of the `number` so far with the chance that any of them has."""
    if len(rows) < num:
        rows.append(row)
    elif (place := rng.randrange(number)) < num:
        rows[place] = row


def _shown_row(row: object) -> dict[str, Any]:
    """Return the fields of a shown row, of a task or of a pair."""
    if not isinstance(row, dict) or "prompt" not in row:
        raise DatasetError("a row must be an object with a prompt", field="prompt")
    prompt = row["prompt"]
    if isinstance(prompt, list):
        messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in prompt]
    else:
        messages = [*row.get("history", []), {"role": "user", "content": str(prompt)}]
    answers = {name: row[name] for name in ("chosen", "rejected", "gold") if row.get(name)}
    tags = row.get("tags") or {}
    facts = {"rubric": row["rubric"]} if row.get("rubric") else {}
    facts |= {name: str(tags[name]) for name in _TAGS if tags.get(name)}
    if row.get("rubric") == "choice" and row.get("reference"):
        facts["right option"] = str(row["reference"])
    if row.get("tests"):
        facts["kind of tests"] = str(row["tests"][0].get("kind"))
    return {
        "name": str(row.get("id", "")),
        "role": str(row.get("role", "")),
        "messages": messages,
        "answers": answers,
        "facts": facts,
    }
