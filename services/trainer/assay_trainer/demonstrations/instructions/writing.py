"""The rows of made instructions: their folder, pairs, numbers, and a sample to read."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import write_atomically
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.statistics.interval import wilson_interval
from assay_shared.text.markdown import visible
from assay_shared.types import PromptFormat, Role, Task
from assay_trainer.curation.files import Found
from assay_trainer.curation.importing import import_set
from assay_trainer.curation.order import ImportOrder, NearOrder
from assay_trainer.curation.page import lines_of, write_page
from assay_trainer.curation.survey import survey
from assay_trainer.data.governance.manifest import ImportManifest
from assay_trainer.data.importers.preference import PREFERENCE
from assay_trainer.data.words import words_of
from assay_trainer.demonstrations.folder import (
    PLAIN_ROWS,
    MadeFolder,
    MadeRow,
    write_demonstrations,
)
from assay_trainer.demonstrations.instructions.answering import AnswerDraft
from assay_trainer.demonstrations.instructions.given.instructions_config import InstructionsConfig

PAIRS = "preferences"
SAMPLE_TEXT, SAMPLE_PAGE = "sample.txt", "sample.html"
_CONFIDENCE = 0.95
_NUM_SHOWN = 20
_MAX_SHOWN = 2000


@dataclass(frozen=True)
class Made:
    """All that was made, with the facts for the manifest and the numbers for gates."""

    candidates: Sequence[AnswerDraft]
    facts: Mapping[str, JsonValue]
    numbers: Mapping[str, JsonValue]
    #: The policy or the server.
    source: str
    num_asked: int
    data_folder: Path | None
    #: The number of pairs, once they are written.
    pairs: list[int] = field(default_factory=list)


def write_made(made: Made, config: InstructionsConfig, output: Path) -> ImportManifest:
    """Write all files of the folder and return its manifest.

    Raises:
        DatasetError: no row is left.
    """

    def numbers(manifest: ImportManifest, kept: Sequence[str]) -> dict[str, JsonValue]:
        if config.revision is not None and config.revision.pairs:
            made.pairs.append(_write_pairs(made, set(kept), config, output / PAIRS))
        return dict(made.numbers) | _numbers(made, manifest, kept)

    folder = MadeFolder(
        output=output,
        format="instructions",
        source=made.source,
        made=made.facts,
        validation_share=config.validation_share,
        seed=config.seed,
        near=NearOrder(against=config.against),
        data_folder=made.data_folder,
    )
    manifest = write_demonstrations([_row(one) for one in made.candidates], folder, numbers)
    write_sample(output, config.seed)
    return manifest


def _row(one: AnswerDraft) -> MadeRow:
    given = one.item.task
    reference = given.reference if given.reference is not None else given.gold
    task = given.model_copy(
        update={
            "gold": one.text,
            "reference": reference,
            "role": Role.TRAIN,
            "prompt_format": PromptFormat.CHAT,
            "tags": {"family": "given" if one.item.is_given else "new", **given.tags},
        }
    )
    revisions: list[JsonValue] = [
        {"principle": step.principle, "critique": step.critique, "answer": step.answer}
        for step in one.revisions
    ]
    record: dict[str, JsonValue] = {
        "source": "given" if one.item.is_given else "new",
        "instruction_request": one.item.request or None,
        "answer_request": one.key,
        "first_answer": one.first,
        "revisions": revisions,
        "score": one.score,
    }
    return MadeRow(task, record)


def _write_pairs(made: Made, kept: set[str], config: InstructionsConfig, output: Path) -> int:
    """Write pairs of revised and first answers as an import does; return their number."""
    rows = [
        {"prompt": _messages(one.item.task), "chosen": one.text, "rejected": one.first}
        for one in made.candidates
        if one.item.task.id in kept and words_of(one.text) != words_of(one.first)
    ]
    shutil.rmtree(output, ignore_errors=True)
    if not rows:
        return 0
    with TemporaryFolder("assay-pairs-") as temporary:
        file = temporary / f"{config.name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        order = ImportOrder(
            PREFERENCE,
            made.source,
            output,
            split="train",
            validation_share=config.validation_share,
            max_refused_share=1.0,
            seed=config.seed,
            near=NearOrder(is_wanted=False),
            data_folder=made.data_folder,
        )
        try:
            return import_set(order, found=Found([file], made.source, None, "train")).count
        except DatasetError:  # all of them are held out, or have a prompt of a test set
            return 0


def _messages(task: Task) -> list[dict[str, str]]:
    return [{"role": one.role, "content": one.content} for one in task.messages]


def _numbers(made: Made, manifest: ImportManifest, kept: Sequence[str]) -> dict[str, JsonValue]:
    names = set(kept)
    rows = [one for one in made.candidates if one.item.task.id in names]
    found: dict[str, JsonValue] = {
        "num_validation_rows": manifest.roles.get(Role.VALIDATION, 0),
        "num_new_rows": sum(not one.item.is_given for one in rows),
        "num_revised_rows": sum(words_of(one.text) != words_of(one.first) for one in rows),
        "num_pairs": made.pairs[-1] if made.pairs else 0,
        "mean_answer_characters": sum(len(one.text) for one in rows) / max(1, len(rows)),
        "mean_instruction_words": sum(len(words_of(one.item.task.prompt)) for one in rows)
        / max(1, len(rows)),
    }
    screened: dict[str, JsonValue] = {}
    for one in manifest.left_out:
        screened[one.kind] = int(str(screened.get(one.kind, 0))) + one.number
    found["screened_out"] = screened
    if made.num_asked:
        share = wilson_interval(len(rows), made.num_asked, _CONFIDENCE)
        found["kept"] = {
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "num_tasks": made.num_asked,
        }
    return found


def write_sample(output: Path, seed: int) -> None:
    """Write rows by chance for a person: as a page, and as text with how each was made."""
    found = survey(output, _NUM_SHOWN, seed)
    write_page(found, None, output / SAMPLE_PAGE)
    shown = {row.name for row in found.rows}
    lines = []
    with (output / PLAIN_ROWS).open(encoding="utf-8", newline="\n") as rows:
        for row in map(json.loads, rows):
            if row["id"] in shown:
                lines += _told(row)
    found.rows.clear()
    lines += lines_of(found, None)
    write_atomically(output / SAMPLE_TEXT, "\n".join(lines) + "\n")


def _told(row: dict[str, JsonValue]) -> list[str]:
    """Return the lines of a row: the instruction, and each text on the way to its answer."""
    record = row["record"]
    assert isinstance(record, dict)
    revisions = record["revisions"]
    assert isinstance(revisions, list)
    parts = [("instruction", row["instruction"])]
    if revisions:
        parts.append(("first answer", record["first_answer"]))
    for step in revisions:
        assert isinstance(step, dict)
        parts.append((f"critique by {step['principle']}", step["critique"]))
    parts.append(("answer", row["response"]))
    lines = [f"--- {visible(str(row['id']))} ({row['role']}), score {record['score']}"]
    for name, text in parts:
        lines += [f"[{visible(str(name))}]", visible(str(text)[:_MAX_SHOWN])]
    return [*lines, ""]
