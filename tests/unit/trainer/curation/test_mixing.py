"""Mixtures: shares as asked for, no row twice, the same rows again."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.types import Role
from assay_trainer.curation.mixing import MixOrder, mix
from assay_trainer.curation.order import NearOrder
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.data.governance.manifest import ImportManifest
from assay_trainer.table_source import ImportedSource
from tests.support.trainer_imports import imported, write_rows

WORDS = [f"word{i}" for i in range(500)]
NEVER = NearOrder(is_wanted=False)


def texts(num: int, seed: int) -> list[str]:
    """Return texts that share nothing."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=30)) for _ in range(num)]


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return folders of 100, 200 and 50 rows: math, qa and qa."""
    sums = ({"question": one, "answer": "#### 5"} for one in texts(100, 1))
    facts = ({"question": one, "answer": "yes"} for one in texts(200, 2))
    more = (
        {"question": one, "answer": "no", "id": f"more{i}"} for i, one in enumerate(texts(50, 3))
    )
    for name, form, rows in [
        ("sums", "gsm8k", sums),
        ("facts", "hotpotqa", facts),
        ("more", "hotpotqa", more),
    ]:
        path = write_rows(tmp_path / name / "train.jsonl", rows)
        imported(form, path, tmp_path / "sets" / name, near=NEVER)
    return tmp_path / "sets/sums", tmp_path / "sets/facts", tmp_path / "sets/more"


def mixed(parts: tuple[Path, ...], output: Path, **more: object) -> ImportManifest:
    """Mix parts without a search for near duplicates."""
    return mix(MixOrder(parts, output, near=NEVER, **more))  # type: ignore[arg-type]


def rewards_by_part(folder: Path) -> Counter[str]:
    """Return the training rows by part: the answer tells it."""
    source = ImportedSource(kind="imported", path=folder)
    tasks = open_dataset(source, DatasetPurpose.TRAIN, None).tasks
    assert len({one.id for one in tasks}) == len(tasks)
    return Counter(one.reference or "" for one in tasks)


def test_domains_have_their_shares_and_no_row_is_there_twice(
    parts: tuple[Path, ...], tmp_path: Path
) -> None:
    manifest = mixed(parts, tmp_path / "out", weights={"math": 0.4, "qa": 0.6})
    # All 100 sums are 40%; the other 60% are of both folders by their sizes.
    assert rewards_by_part(tmp_path / "out") == {"5": 100, "yes": 120, "no": 30}
    assert manifest.mixture == {"gsm8k": 100, "hotpotqa": 150}


def test_folders_and_a_number_of_rows(parts: tuple[Path, ...], tmp_path: Path) -> None:
    weights = {"sums": 0.25, "facts": 0.5, "more": 0.25}
    mixed(parts, tmp_path / "out", weights=weights, num_rows=101)
    found = rewards_by_part(tmp_path / "out")
    assert found.total() == 101
    assert (found["5"], found["no"]) == (25, 25)


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [(1.0, {"5": 100, "yes": 200, "no": 50}), (1000.0, {"5": 50, "yes": 50, "no": 50})],
)
def test_a_temperature_evens_folders_out(
    parts: tuple[Path, ...], tmp_path: Path, temperature: float, expected: dict[str, int]
) -> None:
    mixed(parts, tmp_path / "out", temperature=temperature)
    found = rewards_by_part(tmp_path / "out")
    assert all(abs(found[name] - number) <= 1 for name, number in expected.items())


def test_the_same_seed_chooses_the_same_rows(parts: tuple[Path, ...], tmp_path: Path) -> None:
    weights = {"math": 0.5, "qa": 0.5}
    first = mixed(parts, tmp_path / "a", weights=weights)
    assert mixed(parts, tmp_path / "b", weights=weights).digest == first.digest
    assert mixed(parts, tmp_path / "c", weights=weights, seed=1).digest != first.digest


def test_rows_of_two_parts_are_there_once_and_held_out_rows_stay(tmp_path: Path) -> None:
    rows = [{"question": one, "answer": "#### 5"} for one in texts(100, 4)]
    one = write_rows(tmp_path / "a" / "train.jsonl", rows[:60])
    imported("gsm8k", one, tmp_path / "one", validation_share=0.3, near=NEVER)
    copies = [
        {
            "id": f"copy/{at}",
            "dataset": "copies",
            "role": "train",
            "prompt": json.loads(line)["prompt"],
            "gold": json.loads(line)["gold"],
            "rubric": "math",
        }
        for at, line in enumerate((tmp_path / "one/tasks.jsonl").read_text().splitlines()[:40])
    ]
    two = write_rows(tmp_path / "b" / "train.jsonl", copies)
    imported("tasks", two, tmp_path / "two", near=NEVER)
    manifest = mixed((tmp_path / "one", tmp_path / "two"), tmp_path / "out", temperature=1.0)
    kinds = {left.kind: left.number for left in manifest.left_out}
    assert kinds == {"duplicate": 40}
    assert manifest.roles[Role.TRAIN] + manifest.roles[Role.VALIDATION] == 60


def test_what_cannot_be_mixed_is_told(parts: tuple[Path, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(InvalidInput, match="no part and no domain is called code") as caught:
        mixed(parts, out, weights={"code": 0.5, "math": 0.5})
    assert "facts, math, more, qa, sums" in (caught.value.hint or "")
    with pytest.raises(InvalidInput, match="200 rows of .*sums are wanted, and it has 100"):
        mixed(parts, out, weights={"sums": 0.5, "facts": 0.5, "more": 0}, num_rows=400)
    with pytest.raises(InvalidInput, match="without weights"):
        mixed(parts, out, weights={"sums": 0.5}, temperature=2.0)
    with pytest.raises(InvalidInput, match="more has no weight"):
        mixed(parts, out, weights={"sums": 0.5, "facts": 0.5})
    with pytest.raises(DatasetError, match="has no manifest"):
        mixed((tmp_path,), out)
    assert not out.exists()


def test_a_part_that_is_there_twice_is_left_out_once(
    parts: tuple[Path, ...], tmp_path: Path
) -> None:
    sums, facts, _ = parts
    assert mixed((sums, facts, sums), tmp_path / "out").count == 300
    assert mixed((tmp_path / "out", sums), tmp_path / "again").count == 300


def test_rows_of_two_folders_with_the_same_ids_both_stay(tmp_path: Path) -> None:
    for at in range(2):
        rows = [{"question": one, "answer": "#### 5"} for one in texts(20, 10 + at)]
        path = write_rows(tmp_path / str(at) / "train.jsonl", rows)
        imported("gsm8k", path, tmp_path / f"set{at}", near=NEVER)
    mixed((tmp_path / "set0", tmp_path / "set1"), tmp_path / "out")
    assert rewards_by_part(tmp_path / "out") == {"5": 40}
