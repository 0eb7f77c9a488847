"""The rows of a folder, written as they are read."""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import IO

from pydantic_core import PydanticSerializationError

from assay_shared.errors import DatasetError
from assay_shared.text.half_characters import find_half_character
from assay_shared.text.template_tokens import has_template_token
from assay_shared.types import Role
from assay_trainer.curation.files import Found, plain_name
from assay_trainer.curation.options import ControlTokenRule
from assay_trainer.curation.order import ImportOrder
from assay_trainer.curation.screen import LeftOutRows, Screen, WhyLeftOut, prompt_digest
from assay_trainer.data.governance.manifest import ControlTokenRows, SourceFile, digest_of
from assay_trainer.data.importers.format import ImportedRow, OtherSplit, Place, Row, RowKind
from assay_trainer.data.prompt_hashes import KeyTable, keys_of, text_of
from assay_trainer.data.rows import RawRow, read_raw_rows

Progress = Callable[[int], None]
_EVERY_ROWS = 1000
_HASH_BITS = 64
_MOST_LINES = 20


class RowWriter:
    """Reads files, screens their rows, and writes those to keep, with the place of each."""

    def __init__(
        self, order: ImportOrder, found: Found, screen: Screen, rows: IO[str], left_out: LeftOutRows
    ) -> None:
        self._order, self._found, self._rows = order, found, rows
        self.screen, self.left_out = screen, left_out
        self.files: list[SourceFile] = []
        self.roles: Counter[Role] = Counter()
        #: True after a row for training, also if it was held out.
        self.had_training = False
        #: The prompts of the rows that are not for training, in their order.
        self.prompts = KeyTable()
        self._num_read = 0
        self._places = array("Q")
        #: The rows with a token of a chat template, by their number from 0.
        self._with_tokens = array("Q")

    @property
    def num_read(self) -> int:
        """Return the number of rows read so far."""
        return self._num_read

    def control_tokens(self) -> ControlTokenRows | None:
        """Return the rows with a token of a chat template; None if there are none."""
        if not self._with_tokens:
            return None
        lines = [self._places[2 * number + 1] for number in self._with_tokens[:_MOST_LINES]]
        return ControlTokenRows(number=len(self._with_tokens), lines=tuple(lines))

    def write_all(self, report: Progress) -> None:
        """Write the rows of all files.

        Raises:
            DatasetError: a file cannot be read.
        """
        for at, path in enumerate(self._found.files):
            before, state = self._num_read, _state(path)
            for raw in read_raw_rows(path, self._order.format.layout):
                self._write_row(at, path, raw)
                self._num_read += 1
                if self._num_read % _EVERY_ROWS == 0:
                    report(self._num_read)
            digest = digest_of(path)
            if _state(path) != state:
                raise DatasetError(f"{path} was changed while it was read", field="PATH")
            num_rows = self._num_read - before
            self.files.append(
                SourceFile(
                    name=plain_name(path.name), num_bytes=state[0], sha256=digest, num_rows=num_rows
                )
            )
        report(self._num_read)

    def _write_row(self, file: int, path: Path, raw: RawRow) -> None:
        try:
            if raw.reason is not None:
                raise DatasetError(raw.reason)
            kind = self._order.format.kind
            found = [(one, line_of(one, kind)) for one in self._examples(path, raw.value)]
            for example, line in found:
                token = _token_in(example)
                reason = self._refused_token(example, token)
                reason = reason or self.screen.reason(example, raw.number)
                if reason is None:
                    if token is not None:
                        self._with_tokens.append(len(self._places) // 2)
                    self._keep(example, line, file, raw.number)
                else:
                    self.left_out.add(path, raw.number, reason)
        except OtherSplit as error:
            self.left_out.add(
                path, raw.number, WhyLeftOut("other_split", error.message, error.field)
            )
        except DatasetError as error:
            self.left_out.add(path, raw.number, WhyLeftOut("refused", error.message, error.field))

    def _refused_token(self, example: ImportedRow, token: str | None) -> WhyLeftOut | None:
        is_kept = self._order.control_tokens is ControlTokenRule.KEEP
        if token is None or is_kept or example.task.role is Role.TEST:
            return None
        return WhyLeftOut("control_token", "has a token or a heading of a chat template", token)

    def _examples(self, path: Path, value: object) -> list[ImportedRow]:
        """Return a row's examples: all of them, or an error."""
        split, wanted = self._found.split, self._order.format
        stem = plain_name(path.name).partition(".")[0]
        place = Place(split, wanted.role_of(split), self._num_read, stem)
        return list(wanted.read(Row(value), place))

    def _keep(self, example: ImportedRow, text: str, file: int, line: int) -> None:
        task = example.task
        self.had_training |= task.role is Role.TRAIN
        if task.role is Role.TRAIN and self._is_for_validation(example.question):
            task = task.model_copy(update={"role": Role.VALIDATION})
            text = line_of(replace(example, task=task), self._order.format.kind)
        self._rows.write(f"{text}\n")
        self.roles[task.role] += 1
        if task.role is not Role.TRAIN:
            self.prompts.add(keys_of(example.question, text_of(task), example.options))
        self._places.extend((file, line))

    def _is_for_validation(self, question: str) -> bool:
        """Decide by the prompt alone: rows of one prompt stay together."""
        if not self._order.validation_share:
            return False
        text = f"{self._order.seed}/{prompt_digest(question).hex()}"
        number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
        return number < int(self._order.validation_share * 2**_HASH_BITS)

    def drop(self, removed: Mapping[int, str], path: Path) -> None:
        """Take rows, by their number from 0, out of the file again, with a reason for each."""
        if not removed:
            return
        partial = path.with_name(f"{path.name}.partial")
        with (
            path.open(encoding="utf-8", newline="\n") as old,
            partial.open("w", encoding="utf-8") as new,
        ):
            for number, text in enumerate(old):
                if number not in removed:
                    new.write(text)
        partial.replace(path)
        left = [number for number in self._with_tokens if number not in removed]
        self._with_tokens = array("Q", left)
        for number, reason in sorted(removed.items()):
            file, line = self._places[2 * number : 2 * number + 2]
            self.roles[Role.TRAIN] -= 1
            self.left_out.add(self._found.files[file], line, WhyLeftOut("near_duplicate", reason))


def _token_in(example: ImportedRow) -> str | None:
    """Return the first field with a token of a chat template: prompt, gold or rejected."""
    task = example.task
    texts = [("prompt", one.content) for one in task.messages]
    texts += [("gold", task.gold or ""), ("rejected", example.rejected or "")]
    return next((name for name, text in texts if has_template_token(text)), None)


def _state(path: Path) -> tuple[int, int]:
    """Return the size of a file, and the time of its last change.

    Raises:
        DatasetError: the file is not there.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}", field="PATH") from None
    return found.st_size, found.st_mtime_ns


def line_of(example: ImportedRow, kind: RowKind) -> str:
    """Return an example as a line of the folder's file.

    Raises:
        DatasetError: a text has half of a surrogate pair in it.
    """
    task = example.task
    try:
        if kind is not RowKind.PREFERENCES:
            return task.model_dump_json()
        line = _pair_line(example)
        line.encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        place = find_half_character(task.model_dump(mode="python")) or ("rejected",)
        name = ".".join(map(str, place)).encode(errors="backslashreplace").decode()
        raise DatasetError("must be Unicode text without lone surrogates", field=name) from None
    return line


def _pair_line(example: ImportedRow) -> str:
    task = example.task
    row = {
        "id": task.id,
        "role": task.role,
        "prompt": [message.model_dump() for message in task.messages],
        "chosen": task.gold,
        "rejected": example.rejected,
    }
    return json.dumps(row, ensure_ascii=False)
