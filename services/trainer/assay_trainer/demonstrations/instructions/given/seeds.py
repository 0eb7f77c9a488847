"""Seeds: given instructions, some with answers, that new ones are made from.

A row:  {"instruction": "Name three rivers.", "response": "Rhine, Nile, Amazon."}
`prompt` may stand for `instruction`; `output`, `completion` or `gold` for `response`; `input` is
put behind the instruction. Self-Instruct's `instances` give the first input and output.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_shared.errors import DatasetError
from assay_shared.text.half_characters import is_utf8
from assay_trainer.data.importers.alpaca import instruction_of
from assay_trainer.data.importers.format import Row
from assay_trainer.data.rows import Layout, read_raw_rows
from assay_trainer.demonstrations.instructions.given.instructions_config import MAX_INSTRUCTIONS

_ANSWERS = ("response", "output", "completion", "gold")
#: Gets an instruction and its answer; returns why they cannot be a seed.
Refusal = Callable[[str, str | None], str | None]
_MAX_CHARACTERS = 20_000


@dataclass(frozen=True)
class Seed:
    """An instruction, and its answer if it is known."""

    instruction: str
    response: str | None = None


@dataclass(frozen=True)
class Seeds:
    """The seeds of a file, and why other rows are none: their line and the reason."""

    seeds: tuple[Seed, ...]
    left_out: tuple[tuple[int, str], ...]


def read_seeds(path: Path, refusal: Refusal) -> Seeds:
    """Return the seeds of a file, without those that `refusal` has a reason against.

    Raises:
        DatasetError: a row cannot be read, or no seed is left.
    """
    found: list[Seed] = []
    left_out: list[tuple[int, str]] = []
    for raw in read_raw_rows(path, Layout()):
        where = f"{path}:{raw.number}"
        if raw.reason is not None:
            raise DatasetError(f"{where}: {raw.reason}")
        try:
            seed = _seed(Row(raw.value))
        except DatasetError as error:
            raise DatasetError(f"{where}: {error.message}", field=error.field) from None
        if len(found) == MAX_INSTRUCTIONS:
            raise DatasetError(f"{path} has more than {MAX_INSTRUCTIONS} seeds")
        reason = refusal(seed.instruction, seed.response)
        if reason is None:
            found.append(seed)
        else:
            left_out.append((raw.number, reason))
    if not found:
        first = f": line {left_out[0][0]}: {left_out[0][1]}" if left_out else ""
        raise DatasetError(f"{path} has no seeds that can be used{first}", field="seeds")
    return Seeds(tuple(found), tuple(left_out))


def _seed(row: Row) -> Seed:
    value: Mapping[str, Any] = row.value
    if "instances" in row and isinstance(value["instances"], list) and value["instances"]:
        first = Row(value["instances"][0]).value
        row = Row({**first, "instruction": row.text("instruction")})
    if "instruction" not in row and "prompt" in row:
        row = Row({**row.value, "instruction": row.text("prompt")})
    instruction = instruction_of(row).strip()
    name = next((one for one in _ANSWERS if one in row), None)
    response = row.maybe_text(name).strip() if name else None
    for field, text in (("instruction", instruction), (name or "response", response or "")):
        if len(text) > _MAX_CHARACTERS:
            raise DatasetError(f"has at most {_MAX_CHARACTERS} characters", field=field)
        if not is_utf8(text):
            raise DatasetError("must be Unicode text without lone surrogates", field=field)
    return Seed(instruction, response or None)
