"""Texts that did not become rows, each with its reason, in a file; and their numbers."""

import json
from collections import Counter
from pathlib import Path

from assay_shared.runs.run_folder import write_atomically

LEFT_OUT_TEXTS = "left_out.jsonl"
_MAX_SHOWN = 400


class LeftOutTexts:
    """Counts by what was left out (`instruction`, `answer`, ...) and why.

    The file is written at the end: a command that continues decides on everything again.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._numbers: Counter[tuple[str, str]] = Counter()

    def add(self, what: str, key: str, reason: str, *details: str) -> None:
        """Count a text that is left out; the last detail is its text, one before it an addition."""
        self._numbers[what, reason] += 1
        *told, text = details or ("",)
        row = {"what": what, "key": key, "reason": reason, "detail": told[0] if told else None}
        self._lines.append(json.dumps(row | {"text": text[:_MAX_SHOWN]}))

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The numbers by what was left out, and by reason, the greatest first."""
        found: dict[str, dict[str, int]] = {}
        for (what, reason), number in self._numbers.most_common():
            found.setdefault(what, {})[reason] = number
        return found

    def write(self, folder: Path) -> None:
        """Write a line for each text."""
        write_atomically(folder / LEFT_OUT_TEXTS, "".join(f"{one}\n" for one in self._lines))
