"""AIME and AMC problems, as DeepScaleR has them: answers are whole numbers, some as floats.

A row:  {"problem": "...", "solution": "...", "answer": "60", "year": 1983, "aime_number": 1,
         "problem_number": 1}
"""

from collections.abc import Iterator

from assay_shared.types import Role
from assay_trainer.data.importers.format import ImportedRow, Place, PublishedFormat, Row
from assay_trainer.data.importers.math import boxed_example

#: Problems from this year on are for tests.
_FIRST_TEST_YEAR = 2024


def _read(row: Row, place: Place) -> Iterator[ImportedRow]:
    name = f"{place.split}/{place.number}"
    tags = {}
    if "year" in row:
        year = row.whole("year")
        place.wants("test" if year >= _FIRST_TEST_YEAR else "train")
        tags["family"] = str(year)
        name = f"{year}/{row.whole('aime_number')}/{row.whole('problem_number')}"
    answer = row.number_or_text("answer").strip()
    yield boxed_example(f"aime/{name}", "aime", row, place.role, answer, tags)


AIME = PublishedFormat(
    name="aime",
    domain="math",
    licence="MIT (repository); the texts are the MAA's",
    roles={"train": Role.TRAIN, "test": Role.TEST, "amc": Role.TEST},
    rubric="math",
    verified=("DeepScaleR's aime.json and amc.json, as JSON Lines or arrays",),
    unverified=(),
    read=_read,
)
