"""The ledger: each sampled text and each score once, in the order in which they came."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import append_line
from assay_trainer.demonstrations.instructions.given.instructions_config import (
    MAX_STORED_CHARACTERS,
)

LEDGER = "ledger.jsonl"


class SentPrompt(BaseModel):
    """What the engine read of a raw prompt, as it was checked: nothing but the prompt's tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_tokens: NonNegativeInt
    has_bos: bool
    #: SHA-256 of the ids, as decimal numbers with commas.
    ids: str


class LedgerEntry(BaseModel):
    """A line of ledger.jsonl: the reply to a request, or the scores of an instruction's answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    #: SHA-256 of all that was asked. An entry for another request is not used.
    request: str
    seed: int | None = None
    #: At most 65,536 characters; a longer text cannot be a row.
    text: str = ""
    num_characters: NonNegativeInt = 0
    num_tokens: NonNegativeInt = 0
    #: It was cut off at its token limit.
    truncated: bool = False
    #: Of a raw prompt to a policy whose tokenizer is known.
    sent: SentPrompt | None = None
    #: Of answers: each one's score, and whether its rubric accepts it; null without a score.
    scores: tuple[tuple[float, bool] | None, ...] = ()


class ReplyLedger:
    """The entries of a folder. Those of earlier runs of the command are read at the start."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER
        self._entries: dict[str, LedgerEntry] = {}
        self._used: set[str] = set()
        for entry in _read(self.path):
            self._entries[entry.key] = entry

    def find(self, key: str, request: str) -> LedgerEntry | None:
        """Return the entry of a request, if there is one."""
        found = self._entries.get(key)
        if found is None or found.request != request:
            return None
        self._used.add(key)
        return found

    def add(self, entry: LedgerEntry) -> LedgerEntry:
        """Store an entry, with the start of its text if that is long; return what is stored.

        Raises:
            OSError: it could not be written; the file is then as before.
        """
        stored = entry.model_copy(
            update={
                "text": entry.text[:MAX_STORED_CHARACTERS],
                "num_characters": len(entry.text),
            }
        )
        # A policy's lone surrogates are escaped.
        append_line(self.path, json.dumps(stored.model_dump(mode="json")))
        self._entries[stored.key] = stored
        self._used.add(stored.key)
        return stored

    @property
    def used(self) -> list[LedgerEntry]:
        """The entries that this run of the command asked for."""
        return [one for key, one in self._entries.items() if key in self._used]


def _read(path: Path) -> list[LedgerEntry]:
    """Return the entries of a file; a last line that a kill cut is left out.

    Raises:
        DatasetError: another line is not as it was written.
    """
    if not path.exists():
        return []
    found = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                # Pydantic's own reader refuses escaped lone surrogates.
                found.append(LedgerEntry.model_validate(json.loads(line)))
            except (ValidationError, ValueError) as error:
                reason = str(error).splitlines()[0]
                raise DatasetError(f"{path}:{number} cannot be read: {reason}") from None
    return found
