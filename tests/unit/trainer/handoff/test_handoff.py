"""Checkpoints that cannot be handed off: a clear error, and nothing left behind."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from assay_shared.errors import AssayError, Conflict, DatasetError, InvalidInput, WeightsRefused
from assay_trainer.handoff.handoff import hand_off
from assay_trainer.handoff.order import HandoffOrder
from assay_trainer.handoff.progress import HandoffProgress
from assay_trainer.handoff.writing.tensors import NotHandedOff
from tests.support.policies import make_policy_folder


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "policy"
    make_policy_folder(folder)
    return folder


@pytest.fixture
def folder(policy: Path, tmp_path: Path) -> Path:
    shutil.copytree(policy, tmp_path / "a model")
    return tmp_path / "a model"


def run(checkpoint: Path, output: Path, **options: object) -> None:
    order = HandoffOrder(checkpoint=checkpoint, output=output, **options)  # type: ignore[arg-type]
    with HandoffProgress(Console(quiet=True)) as progress:
        hand_off(order, progress)


def refused(error: type[AssayError], message: str, checkpoint: Path, **options: object) -> None:
    """Check that a hand-off is refused, and that nothing is next to the checkpoint afterwards."""
    before = sorted(checkpoint.parent.iterdir())
    with pytest.raises(error, match=message):
        run(checkpoint, checkpoint.parent / "out", **options)
    assert sorted(checkpoint.parent.iterdir()) == before


def change(folder: Path, how: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    how(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_weights_that_are_not_a_number_are_refused(folder: Path) -> None:
    change(folder, lambda tensors: tensors["model.norm.weight"].fill_(float("nan")))
    refused(WeightsRefused, r"a model/model\.safetensors: model\.norm\.weight has entries", folder)


def test_a_file_that_is_cut_off_is_refused(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    refused(WeightsRefused, r"model\.safetensors is cut off", folder)


def test_a_missing_file_of_weights_is_refused(folder: Path) -> None:
    index = {"metadata": {}, "weight_map": {"a": "model.safetensors", "b": "more.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(WeightsRefused, r"it has no more\.safetensors", folder)


def test_weights_as_pickles_alone_are_refused_with_the_way_out(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(WeightsRefused, "assay inference convert", folder)


def test_an_embedding_of_another_size_than_the_tokenizer_is_refused(folder: Path) -> None:
    def cut(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"][:200].clone()

    change(folder, cut)
    refused(WeightsRefused, "has ids up to 300 .* has 200 rows", folder)


def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    refused(WeightsRefused, "the tokenizer of .*a model cannot be read", folder)


def test_a_folder_without_a_tokenizer_is_refused(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()
    refused(InvalidInput, "--tokenizer: .* has no tokenizer", folder)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(
        InvalidInput, "CHECKPOINT: .*empty is empty: it is not a Hugging Face", tmp_path / "empty"
    )


def test_an_output_that_exists_is_refused_and_stays(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "mine").write_text("mine")
    with pytest.raises(Conflict, match="--output: .*out exists"):
        run(folder, output)
    assert [file.name for file in output.iterdir()] == ["mine"]


def test_a_second_command_for_the_same_output_is_refused(folder: Path, tmp_path: Path) -> None:
    left = tmp_path / ".out.source"
    (left / "gathered").mkdir(parents=True)
    held = os.open(left, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(Conflict, match="--output: another command writes .*out"):
            run(folder, tmp_path / "out")
        assert (left / "gathered").exists()
    finally:
        os.close(held)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsRefused, match="cannot be read"):
        run(folder, tmp_path / "out")
    assert not left.exists()


def test_a_lost_weight_is_refused(folder: Path) -> None:
    change(folder, lambda tensors: tensors.pop("model.norm.weight"))
    refused(WeightsRefused, r"the checkpoint has no model\.norm\.weight", folder)


def test_a_link_out_of_the_checkpoint_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / "chat_template.jinja").symlink_to("/etc/hostname")
    refused(WeightsRefused, "chat_template.jinja is a link to /etc/hostname", folder)


def test_a_place_that_cannot_be_written_to_is_refused(folder: Path) -> None:
    with pytest.raises(NotHandedOff, match="--output: /proc/self cannot be written to"):
        run(folder, Path("/proc/self/out"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('{"prompt": "a"}\n{"question": "b"}\n', r"prompts\.jsonl:2: .*exactly one of prompt"),
        ("", "has 0 prompts"),
    ],
)
def test_prompts_that_cannot_be_asked_are_refused(folder: Path, rows: str, message: str) -> None:
    file = folder.parent / "prompts.jsonl"
    file.write_text(rows)
    refused(DatasetError, message, folder, prompts=file)
