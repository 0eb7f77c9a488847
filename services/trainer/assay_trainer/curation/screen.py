"""Which rows go into a folder: rows that can be read, once each, and of no test-only set."""

import json
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.curation.files import plain_name
from assay_trainer.data.governance.manifest import LeftOut
from assay_trainer.data.importers.format import ImportedRow
from assay_trainer.data.prompt_hashes import PromptHashes, text_of
from assay_trainer.data.words import words_of

MAX_ID_CHARACTERS = 1000
_MAX_LINES = 20
_MAX_REASON = 300
#: After this number of reasons, the manifest counts rows by their kind alone.
_MAX_REASONS = 50


@dataclass(frozen=True)
class WhyLeftOut:
    """Why a row is left out: `refused`, `other_split`, `duplicate`, `test_only`, ..."""

    kind: str
    text: str
    field: str | None = None


class LeftOutRows:
    """Writes refused.jsonl, and counts by reason."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._lines: dict[tuple[str, str], list[int]] = {}
        self.by_kind: Counter[str] = Counter()
        self.first_refused: str | None = None

    def add(self, path: Path, line: int, reason: WhyLeftOut) -> None:
        """Record a row that is left out."""
        text = reason.text[:_MAX_REASON].encode(errors="backslashreplace").decode()
        row = {
            "file": plain_name(path.name),
            "line": line,
            "field": reason.field,
            "kind": reason.kind,
        }
        self._file.write(json.dumps(row | {"reason": text}, ensure_ascii=False) + "\n")
        self.by_kind[reason.kind] += 1
        if reason.kind == "refused" and self.first_refused is None:
            named = f"{reason.field}: " if reason.field else ""
            self.first_refused = f"{plain_name(str(path))}:{line}: {named}{text}"
        key = (reason.kind, self._told(reason, text))
        self._numbers[key] += 1
        lines = self._lines.setdefault(key, [])
        if len(lines) < _MAX_LINES:
            lines.append(line)

    def _told(self, reason: WhyLeftOut, text: str) -> str:
        if reason.kind in ("duplicate", "near_duplicate"):
            return "the row is there already"
        if reason.kind == "other_split":
            return f"{reason.field}: of another split"
        told = f"{reason.field}: {text}" if reason.field else text
        known = (reason.kind, told) in self._numbers
        return told if known or len(self._numbers) < _MAX_REASONS else "further reasons"

    def counts(self) -> tuple[LeftOut, ...]:
        """Return the numbers by kind and reason, the greatest first."""
        return tuple(
            LeftOut(kind=kind, reason=text, number=number, lines=tuple(self._lines[kind, text]))
            for (kind, text), number in self._numbers.most_common()
        )


class Screen:
    """Decides on examples one after another. It holds a few bytes of each earlier one."""

    def __init__(self, known: PromptHashes) -> None:
        self.known = known
        self._ids: dict[bytes, int] = {}
        self._answers: dict[bytes, int] = {}
        self._prompts: set[bytes] = set()
        self.num_same_prompt = 0

    def reason(self, example: ImportedRow, line: int) -> WhyLeftOut | None:
        """Return why an example is left out; None for one to keep.

        Raises:
            DatasetError: it cannot be a row, with the field.
        """
        task = example.task
        _check(task)
        name = _digest(task.id)
        whole = prompt_digest(text_of(task))
        if task.role is not Role.TEST:
            is_learnt = task.role is Role.TRAIN
            found = self.known.find_in(task, example.rejected) if is_learnt else None
            if found is not None:
                return WhyLeftOut("test_only", f"has a prompt of {found}, which is for tests only")
            answer = _answer(example, whole)
            if answer in self._answers:
                told = f"line {self._answers[answer]} has the same prompt and answer"
                return WhyLeftOut("duplicate", told)
        if name in self._ids:
            raise DatasetError(f"{task.id!r} stands in line {self._ids[name]} already", field="id")
        if task.role is not Role.TEST:
            self._answers[answer] = line
        self._ids[name] = line
        self.num_same_prompt += whole in self._prompts
        self._prompts.add(whole)
        return None


def _check(task: Task) -> None:
    if not task.prompt.strip():
        raise DatasetError("must not be empty", field="prompt")
    if len(task.id) > MAX_ID_CHARACTERS:
        raise DatasetError(f"has at most {MAX_ID_CHARACTERS} characters", field="id")


def prompt_digest(text: str) -> bytes:
    """Return a digest of a prompt's words."""
    return _digest(" ".join(words_of(text)))


def _answer(example: ImportedRow, whole: bytes) -> bytes:
    """Return a digest of the prompt's words and of the answers and the instance as they stand."""
    task = example.task
    instance = task.environment.model_dump_json() if task.environment else ""
    return _digest("\0".join([whole.hex(), task.gold or "", example.rejected or "", instance]))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
