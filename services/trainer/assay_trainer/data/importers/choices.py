"""Multiple-choice questions as tasks of the rubric `choice`."""

from collections.abc import Mapping, Sequence

from assay_shared.answers.choices.options import LETTERS, is_there_twice
from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.data.importers.format import ImportedRow, Row

INSTRUCTION = "End with one line: Answer: and the letter of the right option."


def choice_example(
    name: str,
    dataset: str,
    role: Role,
    question: str,
    options: Sequence[str],
    answer: int,
    tags: Mapping[str, str],
) -> ImportedRow:
    """Return a task of a question with lettered options; `answer` is the right one's number.

    Raises:
        DatasetError: the options cannot be told apart, or there is no such option.
    """
    if not 2 <= len(options) <= len(LETTERS):
        raise DatasetError(f"{len(options)} options: there must be 2 to 26", field="choices")
    if not 0 <= answer < len(options):
        raise DatasetError(f"there is no option {answer} of {len(options)}", field="answer")
    letter = LETTERS[answer]
    if is_there_twice(tuple(options), letter):
        raise DatasetError("another option says the same as the right one", field="choices")
    lines = "\n".join(f"{one}. {text}" for one, text in zip(LETTERS, options, strict=False))
    task = Task(
        id=name,
        dataset=dataset,
        role=role,
        prompt=f"{question}\n\n{lines}\n\n{INSTRUCTION}",
        rubric="choice",
        gold=f"Answer: {letter}",
        reference=letter,
        checks={"choice": {"options": list(options), "answer": letter}},
        tags=dict(tags),
    )
    return ImportedRow(task, question, options=tuple(options))


def question_of(row: Row) -> tuple[str, Row]:
    """Return the question, and the part of the row that has its options.

    Raises:
        DatasetError: it is neither a text nor an object with a stem.
    """
    if isinstance(row.get("question"), str):
        return row.text("question"), row
    inner = row.part("question")
    return inner.text("stem"), inner


def labelled(choices: object) -> tuple[list[str], list[str]]:
    """Return labels and texts of [{label, text}, ...], or of {label: [...], text: [...]}.

    Raises:
        DatasetError: they are neither.
    """
    if isinstance(choices, Mapping):
        row = Row(choices)
        labels, texts = row.texts("label"), row.texts("text")
    elif isinstance(choices, Sequence) and not isinstance(choices, str):
        rows = [Row(one) for one in choices]
        labels = [row.text("label") for row in rows]
        texts = [row.text("text") for row in rows]
    else:
        raise DatasetError("must be a list of labels with texts", field="choices")
    if len(labels) != len(texts) or len(set(labels)) != len(labels):
        raise DatasetError("each text needs a label that stands there once", field="choices")
    return labels, texts


def place_of(label: str, labels: Sequence[str]) -> int:
    """Return the number from 0 of a label.

    Raises:
        DatasetError: no option has this label.
    """
    if label not in labels:
        raise DatasetError(f"no option has the label {label[:20]!r}", field="answerKey")
    return list(labels).index(label)
