"""Seeds in the shapes of published files."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError
from assay_trainer.demonstrations.instructions.given.seeds import Seed, read_seeds

ROWS = [
    ({"instruction": "Say a.", "response": "a"}, Seed("Say a.", "a")),
    ({"instruction": "Say b.", "input": "now", "output": "b"}, Seed("Say b.\n\nnow", "b")),
    ({"prompt": "Say c.", "completion": "c"}, Seed("Say c.", "c")),
    ({"prompt": "Say d."}, Seed("Say d.")),
    (
        {"instruction": "Say e.", "instances": [{"input": "", "output": "e"}, {"output": "f"}]},
        Seed("Say e.", "e"),
    ),
    (
        {"id": "t", "role": "train", "prompt": "Say g.", "gold": "g", "rubric": ""},
        Seed("Say g.", "g"),
    ),
]


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(("row", "seed"), ROWS)
def test_the_usual_shapes_are_read(tmp_path: Path, row: dict[str, object], seed: Seed) -> None:
    assert read_seeds(write(tmp_path / "s.jsonl", row), lambda *_: None).seeds == (seed,)


def test_real_seeds_are_read(data_folder: Path) -> None:
    folder = data_folder / "instruction"
    for name, number in (("self_instruct_seed_175", 175), ("rasbt_instruction_1100", 1100)):
        found = read_seeds(folder / f"{name}.jsonl.gz", lambda *_: None)
        assert len(found.seeds) == number
        assert sum(bool(one.response) for one in found.seeds) == number


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"instruction": ""}, "must not be empty"),
        ({"instruction": 3}, "must be a text"),
        ({"text": "x"}, "instruction"),
        ([1], "must be an object"),
        ({"instruction": "a\ud800"}, "lone surrogates"),
        ({"instruction": "x" * 30_000}, "at most 20000 characters"),
    ],
)
def test_a_row_that_is_no_seed_is_an_error_with_its_line(
    tmp_path: Path, row: object, told: str
) -> None:
    path = write(tmp_path / "s.jsonl", {"instruction": "Say a."}, row)
    with pytest.raises(DatasetError, match=r"s\.jsonl:2") as error:
        read_seeds(path, lambda *_: None)
    assert told in str(error.value)


def test_refused_seeds_are_told_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", {"prompt": "bad"}, {"prompt": "good"})
    found = read_seeds(path, lambda text, _: "it is bad" if text == "bad" else None)
    assert found.left_out == ((1, "it is bad"),)
    with pytest.raises(DatasetError, match="line 1: no"):
        read_seeds(path, lambda *_: "no")
