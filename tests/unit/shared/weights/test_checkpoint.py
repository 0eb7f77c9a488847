"""Checkpoint folders: the reach of their digest, and refused folders."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_shared.errors import WeightsRefused
from assay_shared.weights import checkpoint


def write(weights: bytes) -> Callable[[Path], dict[str, str]]:
    def fill(folder: Path) -> dict[str, str]:
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(weights)
        return {"model.safetensors": hashlib.sha256(weights).hexdigest()}

    return fill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint.publish(tmp_path / "v1", write(b"abc"))
    return tmp_path / "v1"


def write_index(folder: Path, *names: str) -> None:
    index = {"metadata": {}, "weight_map": {f"tensor{i}": name for i, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_what_was_meant_to_be_written_is_what_the_digest_says(tmp_path: Path) -> None:
    first = checkpoint.publish(tmp_path / "v1", write(b"abc"))
    assert checkpoint.digest(tmp_path / "v1") == first


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.txt",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "additional_chat_templates/tools.jinja",
    ],
)
def test_each_file_that_decides_an_output_changes_the_digest(folder: Path, name: str) -> None:
    before = checkpoint.digest(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b'{"changed": true}')
    assert checkpoint.digest(folder) != before


@pytest.mark.parametrize("name", ["README.md", "pytorch_model.bin", ".gitattributes", "a.py"])
def test_files_that_are_never_read_leave_the_digest_as_it_is(folder: Path, name: str) -> None:
    before = checkpoint.digest(folder)
    (folder / name).write_bytes(b"anything")
    assert checkpoint.digest(folder) == before


def test_weights_are_the_files_that_the_index_names(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    for name in ("a.safetensors", "b.safetensors", "consolidated.safetensors"):
        (folder / name).write_bytes(name.encode())
    write_index(folder, "a.safetensors", "b.safetensors")
    assert [file.name for file in checkpoint.weight_files(folder)] == [
        "a.safetensors",
        "b.safetensors",
    ]


@pytest.mark.parametrize(
    "name", ["../other/model.safetensors", "/model.safetensors", "sub/a.safetensors", "a.bin", ""]
)
def test_an_index_that_leads_out_of_its_folder_is_refused(folder: Path, name: str) -> None:
    write_index(folder, name)
    with pytest.raises(WeightsRefused, match="only safetensors files in its folder"):
        checkpoint.digest(folder)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"weight_map": []}', '{"weight_map": 1}', "[" * 100_000]
)
def test_an_index_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(WeightsRefused, match="weight_map that can be read"):
        checkpoint.digest(folder)


def test_an_index_without_metadata_is_refused_by_its_name(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(WeightsRefused, match=r"index\.json has no metadata") as refused:
        checkpoint.digest(folder)
    assert refused.value.hint == 'add "metadata": {} to it'


def test_a_folder_that_leaves_its_weights_open_is_refused(folder: Path) -> None:
    (folder / "dummy.safetensors").write_bytes(b"other")
    with pytest.raises(WeightsRefused, match=r"dummy.safetensors is not in an index"):
        checkpoint.digest(folder)
    write_index(folder, "dummy.safetensors")
    with pytest.raises(WeightsRefused, match=r"model.safetensors is not in an index"):
        checkpoint.digest(folder)


def test_pickles_alone_are_no_checkpoint(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(WeightsRefused, match="assay inference convert"):
        checkpoint.digest(folder)


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, str]:
        (folder / "config.json").write_text("{}")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoint.publish(tmp_path / "v1", fail)
    assert list(tmp_path.iterdir()) == []
    checkpoint.publish(tmp_path / "v1", write(b"abc"))
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]


def test_what_is_no_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WeightsRefused, match="there is no checkpoint folder"):
        checkpoint.digest(tmp_path / "none")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(WeightsRefused, match="is not a checkpoint"):
        checkpoint.digest(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "notes"])
def test_a_pipe_in_a_folder_is_refused_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(WeightsRefused, match=f"{name} is not a regular file"):
        checkpoint.digest(folder)


def test_links_to_files_are_files_and_links_to_nothing_are_left_alone(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "weights")
    (folder / "model.safetensors").symlink_to(folder.parent / "weights")
    (folder / "notes").symlink_to(folder.parent / "nothing")
    assert [file.name for file in checkpoint.weight_files(folder)] == ["model.safetensors"]


def test_a_file_that_is_there_already_takes_no_further_room(folder: Path, tmp_path: Path) -> None:
    first = folder / "model.safetensors"
    twins = {checkpoint.file_digest(first): first}
    digest = checkpoint.publish(tmp_path / "v2", write(b"abc"), twins=twins)
    second = tmp_path / "v2" / "model.safetensors"
    assert digest == checkpoint.digest(folder) == checkpoint.digest(tmp_path / "v2")
    assert second.samefile(first)
    assert sorted(file.name for file in second.parent.iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    checkpoint.publish(folder, write(b"xyz"))
    assert second.read_bytes() == b"abc", "each folder keeps its content when another is replaced"


@pytest.mark.parametrize("twin", ["changed", "gone", "a folder"])
def test_a_twin_that_is_not_what_its_digest_says_is_left_alone(
    folder: Path, tmp_path: Path, twin: str
) -> None:
    first = folder / "model.safetensors"
    twins = {checkpoint.file_digest(first): first}
    first.unlink()
    if twin == "changed":
        first.write_bytes(b"abd")
    elif twin == "a folder":
        first.mkdir()
    digest = checkpoint.publish(tmp_path / "v2", write(b"abc"), twins=twins)
    assert (tmp_path / "v2" / "model.safetensors").read_bytes() == b"abc"
    assert checkpoint.digest(tmp_path / "v2") == digest
