"""Published sets of pairs: LLMBar, JudgeBench and RM-Bench.

LLMBar      Zeng et al., 2310.07641: instructions, an answer following them and another failing to
JudgeBench  Tan et al., 2410.12784: hard questions, a right and a wrong answer
RM-Bench    Liu et al., 2410.16184: three right and three wrong answers, each in three styles
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from assay_judge.bench.names import SetName
from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines

#: RM-Bench only: the better answer has the richer style (easy), the same (normal), or the plainer
#: style (hard).
Difficulty = Literal["easy", "normal", "hard"]
STYLES = ("concise", "detailed", "markdown")


@dataclass(frozen=True)
class LabelledPair:
    """Two answers to a question; `better` is the index of the better one.

    Pairs of the same `row` share question and answers, and are not independent of each other.
    `styles` (RM-Bench only) has the style of the better and of the worse answer.
    """

    key: str
    row: str
    subset: str
    question: str
    answers: tuple[str, str]
    better: int
    styles: tuple[int, int] | None = None

    @property
    def difficulty(self) -> Difficulty | None:
        if self.styles is None:
            return None
        better, worse = self.styles
        return "normal" if better == worse else "easy" if better > worse else "hard"


@dataclass(frozen=True)
class PairSet:
    """The pairs of a set; `digest` is the SHA-256 of the files' bytes.

    Pairs of identical answers have no better answer: they are left out and counted.
    """

    name: SetName
    digest: str
    pairs: Sequence[LabelledPair]
    num_identical: int = 0

    @property
    def subsets(self) -> list[str]:
        return sorted({pair.subset for pair in self.pairs})

    def select(self, subsets: Sequence[str], limit: int | None, seed: int) -> list[LabelledPair]:
        """Return the pairs of a random sample of at most `limit` rows.

        With the same seed, a greater limit only adds rows.

        Raises:
            DatasetError: the set does not have one of the subsets.
        """
        unknown = sorted(set(subsets) - set(self.subsets))
        if unknown:
            raise DatasetError(
                f"{self.name} has no subset {unknown[0]!r}",
                field="subset",
                hint=f"it has: {', '.join(self.subsets)}",
            )
        chosen = [pair for pair in self.pairs if not subsets or pair.subset in subsets]
        rows = list(dict.fromkeys(pair.row for pair in chosen))
        random.Random(seed).shuffle(rows)
        place = {row: number for number, row in enumerate(rows[:limit])}
        return sorted((one for one in chosen if one.row in place), key=lambda one: place[one.row])


def read_set(name: SetName, data: Path) -> PairSet:
    """Return the pairs of a set in `data`: a file, a folder of the set's files, or its parent.

    Raises:
        DatasetError: there are no such files, or a row is unusable; the error names file, row and
            field.
    """
    folder = data / name if (data / name).is_dir() else data
    patterns, read = _READERS[name]
    files = [folder] if folder.is_file() else sorted({f for p in patterns for f in folder.glob(p)})
    if not files:
        raise DatasetError(
            f"{folder} has no file of {name}", field="data", hint=f"looked for {patterns}"
        )
    digest = hashlib.sha256()
    pairs: list[LabelledPair] = []
    for file in files:
        digest.update(file.read_bytes())
        pairs += read(file, file.relative_to(folder) if file != folder else Path(file.name))
    keys = {pair.key for pair in pairs}
    if len(keys) < len(pairs):
        raise DatasetError(f"{folder} has rows twice", field="data", hint="give one file of them")
    different = [pair for pair in pairs if pair.answers[0] != pair.answers[1]]
    return PairSet(name, digest.hexdigest(), different, len(pairs) - len(different))


_AnyRow = TypeVar("_AnyRow")
_Text = Annotated[str, StringConstraints(min_length=1)]


class _Row(BaseModel):
    """A row as published; unused fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class _LLMBar(_Row):
    input: _Text
    output_1: str
    output_2: str
    label: Literal[1, 2]
    #: Present if the rows of several files were merged into a single file.
    subset: str | None = None


class _JudgeBench(_Row):
    pair_id: _Text
    source: _Text
    question: _Text
    response_A: str
    response_B: str
    label: Literal["A>B", "B>A"]


class _RMBench(_Row):
    id: int | str
    prompt: _Text
    chosen: Annotated[list[str], Field(min_length=3, max_length=3)]
    rejected: Annotated[list[str], Field(min_length=3, max_length=3)]
    domain: str | None = None


def _read_llmbar(file: Path, name: Path) -> Iterator[LabelledPair]:
    """Yield a pair for each row; the published files have their subset in the folder's name."""
    for number, row in enumerate(_rows(file, _LLMBar.model_validate), start=1):
        subset = row.subset or name.parent.as_posix()
        key = f"{subset}/{number}"
        answers = (row.output_1, row.output_2)
        yield LabelledPair(key, key, subset, row.input, answers, better=row.label - 1)


def _judgebench_category(source: str) -> str:
    """Return a source's category, of the four in JudgeBench's published results."""
    if source.startswith("mmlu-pro"):
        return "knowledge"
    return {"livecodebench": "coding"}.get(source, source.removeprefix("livebench-"))


def _read_judgebench(file: Path, name: Path) -> Iterator[LabelledPair]:
    for row in _rows(file, _JudgeBench.model_validate):
        answers = (row.response_A, row.response_B)
        better = 0 if row.label == "A>B" else 1
        subset = _judgebench_category(row.source)
        yield LabelledPair(row.pair_id, row.pair_id, subset, row.question, answers, better)


def _read_rmbench(file: Path, name: Path) -> Iterator[LabelledPair]:
    """Yield nine pairs for each row: each style of the better answer against each of the worse.

    A hash of the pair's key puts about half of the better answers first. Otherwise every pair
    would have the same gold label, and kappa would be undefined.
    """
    for row in _rows(file, _RMBench.model_validate):
        subset = row.domain or name.name.partition("_filtered")[0]
        of_row = f"{subset}/{row.id}"
        for i, chosen in enumerate(row.chosen):
            for j, rejected in enumerate(row.rejected):
                key = f"{of_row}/{STYLES[i]}-{STYLES[j]}"
                better = hashlib.sha256(key.encode()).digest()[0] % 2
                answers = (rejected, chosen) if better else (chosen, rejected)
                yield LabelledPair(key, of_row, subset, row.prompt, answers, better, (i, j))


def _rows(file: Path, parse: Callable[[object], _AnyRow]) -> Iterator[_AnyRow]:
    """Yield the rows of a JSON Lines file, or of a JSON array (.json)."""
    if file.suffix != ".json":
        yield from read_json_lines(file, parse)
        return
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DatasetError(f"{file} is not JSON: {error}") from None
    if not isinstance(found, list):
        raise DatasetError(f"{file} is not an array of rows")
    for number, one in enumerate(found, start=1):
        try:
            yield parse(one)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or None
            raise DatasetError(f"{file}, row {number}: {first['msg']}", field=where) from None


_Reader = Callable[[Path, Path], Iterator[LabelledPair]]
_READERS: dict[SetName, tuple[tuple[str, ...], _Reader]] = {
    SetName.LLMBAR: (("*.jsonl", "*.jsonl.gz", "**/dataset.json"), _read_llmbar),
    SetName.JUDGEBENCH: (("*.jsonl", "*.jsonl.gz"), _read_judgebench),
    SetName.RMBENCH: (("*.jsonl", "*.jsonl.gz", "*_filtered.json"), _read_rmbench),
}
