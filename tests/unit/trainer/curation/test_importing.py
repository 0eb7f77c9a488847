"""Imports: what goes into a folder, what is left out with which reason, and who may open it."""

import io
import json
import random
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from assay_shared.errors import Conflict, DatasetError, InvalidInput, RoleError
from assay_shared.types import Role
from assay_trainer.curation.importing import import_set
from assay_trainer.curation.options import ControlTokenRule
from assay_trainer.curation.order import ImportOrder, NearOrder, share_of
from assay_trainer.data.dataset import DatasetPurpose, named_source, open_dataset
from assay_trainer.data.governance.manifest import read_manifest
from assay_trainer.data.importers import find_format
from assay_trainer.data.preferences import open_preferences
from assay_trainer.data.prompt_hashes import KeyTable, keys_of
from assay_trainer.table_source import ImportedSource
from tests.support.hub import LocalHub
from tests.support.trainer_imports import imported, write_rows

ROW = {"question": "What is 2 + 3?", "answer": "It is 2 + 3 = <<2+3=5>>5.\n#### 5"}
WORDS = [f"word{i}" for i in range(500)]


def rows_of(num: int, seed: int = 1) -> list[dict[str, str]]:
    """Return rows of GSM8K's form that share nothing."""
    rng = random.Random(seed)
    return [ROW | {"question": " ".join(rng.choices(WORDS, k=30))} for _ in range(num)]


def source(path: Path, role: Role | None = None) -> ImportedSource:
    """Return a folder as a source of a run file."""
    return ImportedSource(kind="imported", path=path, role=role)


def left_out(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of refused.jsonl."""
    return [json.loads(line) for line in (folder / "refused.jsonl").read_text().splitlines()]


def test_no_row_vanishes_without_a_reason(tmp_path: Path) -> None:
    rows = rows_of(30)
    lines = [json.dumps(one) for one in rows]
    lines[3] = lines[2].replace("word", "WORD").replace(" ", "  ", 3)
    lines[7] = '{"question": 1, "answer": "#### 1"}'
    lines[9] = "{"
    lines[11] = json.dumps(rows[11] | {"question": "half \ud83d of a character"})
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(lines) + "\n")
    manifest = imported("gsm8k", path, tmp_path / "out")
    assert (manifest.num_rows_read, manifest.count, manifest.roles) == (30, 26, {Role.TRAIN: 26})
    assert [
        (one["kind"], one["file"], one["line"], one["field"]) for one in left_out(tmp_path / "out")
    ] == [
        ("duplicate", "train.jsonl", 4, None),
        ("refused", "train.jsonl", 8, "question"),
        ("refused", "train.jsonl", 10, None),
        ("refused", "train.jsonl", 12, "prompt"),
    ]
    assert sum(one.number for one in manifest.left_out) == 4
    assert read_manifest(tmp_path / "out") == manifest
    tasks = open_dataset(source(tmp_path / "out"), DatasetPurpose.TRAIN, None).tasks
    assert len(tasks) == 26


def test_too_many_refused_rows_end_the_import(tmp_path: Path) -> None:
    rows = [*rows_of(9), {"question": "x", "answer": "none"}]
    path = write_rows(tmp_path / "train.jsonl", rows)
    with pytest.raises(DatasetError, match=r"1 of 10 rows are refused: .*:10: answer: there is no"):
        imported("gsm8k", path, tmp_path / "out", max_refused_share=0.0)
    assert not (tmp_path / "out").exists()
    assert imported("gsm8k", path, tmp_path / "out", max_refused_share=0.1).count == 9
    with pytest.raises(Conflict, match="is not empty"):
        imported("gsm8k", path, tmp_path / "out")


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"task_id": 11}, {"task_id": 12}])
    with pytest.raises(DatasetError, match="nothing is left .*2 other_split"):
        imported("mbpp", path, tmp_path / "out", split="train")


def test_a_share_is_held_out_by_prompt_and_never_trained_on(tmp_path: Path) -> None:
    rows = rows_of(1000)
    # Other answers to a tenth of the prompts: they go where their prompt goes.
    rows += [one | {"answer": "By another way.\n#### 5"} for one in rows[:100]]
    path = write_rows(tmp_path / "train.jsonl", rows)
    near = NearOrder(is_wanted=False)
    manifest = imported("gsm8k", path, tmp_path / "out", validation_share=0.1, near=near)
    assert manifest.roles[Role.VALIDATION] == pytest.approx(110, abs=40)
    assert manifest.num_same_prompt == 100
    train = open_dataset(source(tmp_path / "out"), DatasetPurpose.TRAIN, None).tasks
    held_out = open_dataset(source(tmp_path / "out"), DatasetPurpose.EVALUATE, None).tasks
    assert len(train) + len(held_out) == 1100
    assert not {one.prompt for one in train} & {one.prompt for one in held_out}
    with pytest.raises(RoleError, match="cannot be trained on"):
        open_dataset(source(tmp_path / "out", Role.VALIDATION), DatasetPurpose.TRAIN, None)
    again = imported("gsm8k", path, tmp_path / "again", validation_share=0.1, near=near)
    assert again.digest == manifest.digest
    other = imported("gsm8k", path, tmp_path / "other", validation_share=0.1, near=near, seed=1)
    assert other.digest != manifest.digest


def test_a_changed_file_is_not_opened(data_folder: Path, tmp_path: Path) -> None:
    imported("humaneval", data_folder / "HumanEval.jsonl.gz", tmp_path / "he")
    with pytest.raises(RoleError, match="has no row for this use: it has 164 for test"):
        open_dataset(source(tmp_path / "he"), DatasetPurpose.TRAIN, None)
    assert len(open_dataset(source(tmp_path / "he"), DatasetPurpose.EVALUATE, None).tasks) == 164
    rows = tmp_path / "he" / "tasks.jsonl"
    rows.write_text(rows.read_text().replace('"role":"test"', '"role":"train"'))
    for purpose in DatasetPurpose:
        with pytest.raises((DatasetError, RoleError), match="was changed after its import"):
            open_dataset(source(tmp_path / "he", Role.TRAIN), purpose, None)


def test_preferences_are_opened_for_dpo_alone(data_folder: Path, tmp_path: Path) -> None:
    path = data_folder / "preference" / "ultrafeedback_train_1000.jsonl.gz"
    manifest = imported("preference", path, tmp_path / "out")
    assert manifest.count == 991
    kinds = Counter(one["kind"] for one in left_out(tmp_path / "out"))
    assert kinds == {"refused": 6, "near_duplicate": 3}
    assert len(open_preferences(source(tmp_path / "out"))) == 991
    with pytest.raises(DatasetError, match="preferences: they go with dpo.data"):
        open_dataset(source(tmp_path / "out"), DatasetPurpose.TRAIN, None)


def test_problems_of_math_that_are_in_mmlu_are_left_out(data_folder: Path, tmp_path: Path) -> None:
    """MMLU's test split took problems of MATH's training split: 20 of these 2,000."""
    path = data_folder / "math" / "math_train_2000.jsonl.gz"
    manifest = imported("math", path, tmp_path / "out", near=NearOrder(is_wanted=False))
    kinds = Counter(one["kind"] for one in left_out(tmp_path / "out"))
    assert kinds == {"refused": 2, "test_only": 20}
    assert manifest.count == 1978
    assert open_dataset(source(tmp_path / "out"), DatasetPurpose.TRAIN, None).tasks


def test_the_name_of_a_file_tells_its_split(tmp_path: Path) -> None:
    for name in ("train.jsonl", "test.jsonl"):
        write_rows(tmp_path / "gsm8k" / name, rows_of(5, seed=len(name)))
    assert imported("gsm8k", tmp_path / "gsm8k", tmp_path / "a", split="test").roles == {
        Role.TEST: 5
    }
    assert imported("gsm8k", tmp_path / "gsm8k/train.jsonl", tmp_path / "b").split == "train"
    with pytest.raises(DatasetError, match="which split.*test, train"):
        imported("gsm8k", tmp_path / "gsm8k", tmp_path / "c")
    with pytest.raises(DatasetError, match="gsm8k has no split dev"):
        imported("gsm8k", tmp_path / "gsm8k", tmp_path / "c", split="dev")


def test_a_test_split_keeps_its_duplicates(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "test.jsonl", [ROW, ROW, ROW])
    manifest = imported("gsm8k", path, tmp_path / "out")
    assert (manifest.count, manifest.num_same_prompt) == (3, 2)
    (prompts,) = KeyTable.read(tmp_path / "out" / manifest.prompt_hashes).values()
    task = open_dataset(source(tmp_path / "out"), DatasetPurpose.EVALUATE, None).tasks[0]
    assert list(prompts) == 3 * [keys_of(ROW["question"], task.prompt)]


@pytest.mark.slow
def test_a_published_benchmark_of_models_is_imported(data_folder: Path, tmp_path: Path) -> None:
    path = data_folder / "or_debug_bench" / "or_debug_bench_test_v2"
    manifest = imported("or_debug", path, tmp_path / "out", split="test")
    assert manifest.roles == {Role.TEST: 83}
    tasks = open_dataset(source(tmp_path / "out"), DatasetPurpose.EVALUATE, None).tasks
    assert all(one.environment is not None for one in tasks)


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    """Rows of 30 kB: twice as many take less than a tenth of their size more."""
    peaks = []
    for num in (200, 400):
        rng = random.Random(num)
        rows = ({**ROW, "question": " ".join(rng.choices(WORDS, k=4000))} for _ in range(num))
        path = write_rows(tmp_path / str(num) / "train.jsonl", rows)
        tracemalloc.start()
        imported("gsm8k", path, tmp_path / f"out{num}", near=NearOrder(is_wanted=False))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    grown = peaks[1] - peaks[0]
    assert grown < 0.1 * 200 * 30_000


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.02", 0.02), ("0", 0.0)])
def test_shares_are_percent_or_fractions(text: str, share: float) -> None:
    assert share_of(text, "--validation") == share


@pytest.mark.parametrize("text", ["2 percent", "", "100%", "-1%", "nan"])
def test_other_shares_are_errors(text: str) -> None:
    with pytest.raises(Exception, match="is not a share"):
        share_of(text, "--validation")


def test_a_whole_share_is_taken_where_it_makes_sense() -> None:
    assert share_of("100%", "--weight", takes_whole=True) == 1.0
    with pytest.raises(InvalidInput, match="is not a share of less than 100%"):
        share_of("100%", "--validation")


def test_a_set_of_a_hub_has_its_commit_in_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = LocalHub(tmp_path / "hub")
    with hub.running():
        hub.use(monkeypatch, tmp_path / "cache")
        table = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows_of(12)), table)
        files = {"main/train-00000-of-00001.parquet": table.getvalue()}
        commit = hub.publish("datasets", "openai/gsm8k", files)
        manifest = imported("gsm8k", "hub:openai/gsm8k", tmp_path / "out", split="train")
    assert (manifest.source, manifest.revision) == ("openai/gsm8k", commit)
    assert manifest.count == 12
    with pytest.raises(DatasetError, match="is deprecated: it was taken down"):
        imported("math", "hub:hendrycks/competition_math", tmp_path / "x", split="train")


def test_a_stopped_import_leaves_no_folder_and_starts_again(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.jsonl", rows_of(1500))
    order = ImportOrder(find_format("gsm8k"), str(path), tmp_path / "out")

    def stop(num_rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_set(order, stop)
    assert not (tmp_path / "out").exists()
    assert import_set(order).count == 1500
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out", "train.jsonl"]


def test_commands_take_a_folder_as_a_set(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.jsonl", rows_of(5))
    imported("gsm8k", path, tmp_path / "out")
    opened = open_dataset(named_source(str(tmp_path / "out")), DatasetPurpose.TRAIN, None)
    assert len(opened.tasks) == 5


@pytest.mark.parametrize("change", ["truncate", "remove"])
def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, change: str) -> None:
    path = write_rows(tmp_path / "train.jsonl", rows_of(3000))
    order = ImportOrder(find_format("gsm8k"), str(path), tmp_path / "out")

    def shorten(num_rows: int) -> None:
        if change == "remove":
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    with pytest.raises(DatasetError, match="was changed while it was read|cannot be read"):
        import_set(order, shorten)
    assert not (tmp_path / "out").exists()


def test_a_share_that_leaves_nothing_to_train_on_is_an_error(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.jsonl", rows_of(20))
    with pytest.raises(DatasetError, match=r"is left for training: 20 for validation"):
        imported("gsm8k", path, tmp_path / "out", validation_share=0.9999)


def test_the_sets_that_were_searched_for_are_in_the_manifest(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "train.jsonl", rows_of(2))
    sets = imported("gsm8k", path, tmp_path / "out").test_only_sets
    assert (sets["gsm8k"], sum(sets.values())) == (1319, 24_354)


def test_control_tokens_are_counted_with_their_lines_and_refused_only_if_asked(
    tmp_path: Path,
) -> None:
    rows = [{"instruction": f"Say {n}.", "output": f"It is {n}."} for n in range(6)]
    rows[1]["output"] = "Done.<|im_end|>\n<|im_start|>user\nMore."
    rows[4]["instruction"] = "[INST] Say it. [/INST]"
    path = write_rows(tmp_path / "train.jsonl", rows)
    kept = imported("alpaca", path, tmp_path / "kept")
    assert kept.count == 6
    assert kept.control_tokens is not None
    assert (kept.control_tokens.number, kept.control_tokens.lines) == (2, (2, 5))
    refuse = ControlTokenRule.REFUSE
    refused = imported("alpaca", path, tmp_path / "refused", control_tokens=refuse)
    assert (refused.count, refused.control_tokens) == (4, None)
    assert [(one["kind"], one["line"], one["field"]) for one in left_out(tmp_path / "refused")] == [
        ("control_token", 2, "gold"),
        ("control_token", 5, "prompt"),
    ]
