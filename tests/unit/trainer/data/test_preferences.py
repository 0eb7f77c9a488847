"""Preference rows of every kind of source, and the rows that are refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Message, PromptFormat, Role
from assay_trainer.data.preferences import Preference, open_preferences
from assay_trainer.table_source import PreferenceFile, PreferenceHub, PreferenceMap
from tests.support.hub import LocalHub
from tests.unit.trainer.data.test_tables import SUFFIXES, write

ROWS = [
    {"prompt": "2 + 3?", "chosen": "5", "rejected": "6"},
    {"prompt": 'Say "a,b"\nor c?', "chosen": "a,b", "rejected": "d"},
]
CHAT = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "2 + 3?"},
]


def opened(path: Path, **row_map: str) -> list[Preference]:
    kind = "jsonl" if ".jsonl" in path.name else "table"
    return open_preferences(
        PreferenceFile.model_validate({"kind": kind, "path": path, "map": row_map})
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_preferences(tmp_path: Path, suffix: str) -> None:
    found = opened(write(tmp_path / f"pairs.{suffix}", ROWS))
    assert [(one.task.prompt, one.chosen, one.rejected) for one in found] == [
        tuple(row.values()) for row in ROWS
    ]
    assert [one.task.id for one in found] == ["pairs/0", "pairs/1"]
    assert found[0].task.role is Role.TRAIN


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_prompt_may_be_a_chat(tmp_path: Path, suffix: str) -> None:
    (one,) = opened(write(tmp_path / f"p.{suffix}", [ROWS[0] | {"prompt": CHAT}]))
    assert one.task.prompt == "2 + 3?"
    assert one.task.history == (Message(role="system", content="Be short."),)


def test_a_row_may_name_a_raw_prompt(tmp_path: Path) -> None:
    row = ROWS[0] | {"prompt_format": "raw"}
    first, second = opened(write(tmp_path / "p.jsonl", [row, ROWS[1]]))
    assert first.task.prompt_format is PromptFormat.RAW
    assert second.task.prompt_format is PromptFormat.CHAT
    with pytest.raises(DatasetError, match="a raw prompt is one text"):
        opened(write(tmp_path / "q.jsonl", [row | {"prompt": CHAT}]))


def test_a_map_takes_answers_out_of_chats(tmp_path: Path) -> None:
    row = {
        "question": "2 + 3?",
        "good": [*CHAT, {"role": "assistant", "content": "5"}],
        "bad": [*CHAT, {"role": "assistant", "content": "6"}],
    }
    (one,) = opened(
        write(tmp_path / "p.jsonl", [row]),
        prompt="Work it out: {question}",
        chosen="{good.2.content}",
        rejected="{bad.2.content}",
    )
    assert (one.task.prompt, one.chosen, one.rejected) == ("Work it out: 2 + 3?", "5", "6")


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"chosen": " \n"}, "chosen", "must not be empty"),
        ({"prompt": ""}, "prompt", "must not be empty"),
        ({"chosen": None}, "chosen", "is null"),
        ({"chosen": 1}, "chosen", "must be a text or a list of messages, not int"),
        ({"chosen": ["5"]}, "chosen.0", "Input should be an object"),
        ({"rejected": "\ud83d"}, "rejected", "without lone surrogates"),
        ({"prompt": []}, "prompt", "the last message of a chat must be the user's"),
        ({"prompt": [{"role": "assistant", "content": "5"}]}, "prompt", "must be the user's"),
        ({"prompt": [{"role": "poet", "content": "5"}]}, "prompt.0.role", "'system', 'user'"),
    ],
)
def test_a_bad_row_is_refused_with_its_file_line_and_field(
    tmp_path: Path, change: dict[str, Any], field: str, message: str
) -> None:
    path = write(tmp_path / "p.jsonl", [ROWS[1], ROWS[0] | change])
    with pytest.raises(DatasetError, match=message) as error:
        opened(path)
    assert error.value.message.startswith(f"{path}:2: ")
    assert error.value.field == field


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_field_is_refused(tmp_path: Path, suffix: str) -> None:
    rows = [{name: row[name] for name in ("prompt", "chosen")} for row in ROWS]
    with pytest.raises(DatasetError, match="There are: prompt, chosen") as error:
        opened(write(tmp_path / f"p.{suffix}", rows))
    assert error.value.field == "rejected"


def test_no_rows_and_no_file_are_errors(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n")
    with pytest.raises(DatasetError, match="p has no preferences"):
        opened(tmp_path / "p.jsonl")
    with pytest.raises(DatasetError, match="there is no file"):
        opened(tmp_path / "q.jsonl")


def test_a_hubs_split_is_read_and_one_for_tests_is_not_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    with LocalHub(tmp_path / "served").running() as hub:
        hub.use(monkeypatch, tmp_path / "home")
        hub.publish("datasets", "owner/pairs", {"train.jsonl": lines, "test.jsonl": lines})
        source = PreferenceHub(kind="hub", name="owner/pairs", split="train", map=PreferenceMap())
        assert [one.chosen for one in open_preferences(source)] == ["5", "a,b"]
        with pytest.raises(RoleError, match="split test is for test only"):
            open_preferences(source.model_copy(update={"split": "test"}))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("has_prompt", [False, True])
def test_answers_may_be_chats_as_in_ultrafeedback(
    tmp_path: Path, data_folder: Path, suffix: str, has_prompt: bool
) -> None:
    """Real pairs, in the published form: each answer with the prompt before it, or without."""
    file = data_folder / "preference" / "ultrafeedback_train_1000.jsonl.gz"
    with gzip.open(file, "rt") as lines:
        rows = [json.loads(next(lines)) for _ in range(20)]

    def chat(row: dict[str, str], name: str) -> list[dict[str, str]]:
        user = {"role": "user", "content": row["prompt"]}
        return [*([user] if has_prompt else []), {"role": "assistant", "content": row[name]}]

    chats = [
        {name: chat(row, name) for name in ("chosen", "rejected")} | {"prompt": row["prompt"]}
        for row in rows
    ]
    path = tmp_path / f"pairs{suffix}"
    if suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(chats), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in chats))
    found = open_preferences(PreferenceFile(kind="table", path=path))
    assert [(one.task.prompt, one.chosen, one.rejected) for one in found] == [
        (row["prompt"], row["chosen"], row["rejected"]) for row in rows
    ]


USER, REPLY = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_rows_prompt_format_is_read_from_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    row = {"prompt": "Hi", "chosen": "Hello", "rejected": "Go", "prompt_format": "raw"}
    (found,) = opened(write(tmp_path / f"pairs.{suffix}", [row]))
    assert found.task.prompt_format is PromptFormat.RAW


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": [REPLY, USER]}, "chosen: .*pairs.jsonl:1: the last message of an answer must"),
        ({"chosen": []}, "chosen: .*the last message of an answer must"),
        (
            {"chosen": [{"role": "user", "content": "Other"}, REPLY]},
            "chosen: .*the messages before the last one must be the prompt's",
        ),
        ({"rejected": [{"role": "gpt", "content": "x"}]}, r"rejected\.0\.role: .*:1: "),
        ({"prompt": json.dumps([USER])}, "prompt: .*is a chat as a text"),
        ({"chosen": str([USER, REPLY])}, "chosen: .*is a chat as a text"),
        ({"prompt_format": "none"}, "prompt_format: .*pairs.jsonl:1: 'none' is none of chat, raw"),
        ({"prompt_format": ["raw"]}, "prompt_format: .*is none of chat, raw"),
        ({"chosen": float("nan")}, "chosen: .*must be a text or a list of messages, not float"),
        (
            {"prompt": [{"role": "system", "content": "a\ud800"}, USER]},
            "prompt: .*without lone surrogates",
        ),
    ],
)
def test_a_hostile_chat_is_refused_with_its_field(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = tmp_path / "pairs.jsonl"
    row = {"prompt": "Hi", "chosen": "Hello", "rejected": "Go"} | changes
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DatasetError, match=message):
        open_preferences(PreferenceFile(kind="jsonl", path=path))
