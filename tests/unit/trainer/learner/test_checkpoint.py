"""A run resumes from the newest undamaged checkpoint."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assay_shared.errors import WeightsRefused
from assay_shared.weights.checkpoint import file_digest
from assay_trainer.curriculum.state import BatcherState
from assay_trainer.learner import checkpoint
from assay_trainer.learner.retention import forget_checkpoints


def make(stage: Path, *steps: int) -> None:
    for step in steps:
        folder = checkpoint.folder_of(stage, step)
        (folder / "deep").mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"w" * 1000)
        (folder / "deep" / "optimizer.pt").write_bytes(b"o" * 100)
        checkpoint.complete(stage, step, BatcherState(step * 10, (step,)), pass_rate=0.5)


def change(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def in_state(old: str, new: str) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        file = folder / "assay.json"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "model.safetensors is not what was written": change("model.safetensors", b"w" * 999 + b"x"),
    "deep/optimizer.pt is missing": lambda folder: (folder / "deep" / "optimizer.pt").unlink(),
    "evil.pt was added": change("evil.pt", b"x"),
    "assay.json cannot be read: Invalid JSON": change("assay.json", b'{"pass_ra'),
    "assay.json cannot be read: Field required": change("assay.json", b'{"pass_rate": null}'),
    "assay.json is not what was written": in_state('"next_draw": 20', '"next_draw": 90'),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_newest_checkpoint_is_refused_and_the_one_before_is_taken(
    tmp_path: Path, reason: str
) -> None:
    make(tmp_path, 1, 2)
    DAMAGES[reason](checkpoint.folder_of(tmp_path, 2))
    refused: list[tuple[str, str]] = []
    found = checkpoint.take_newest(tmp_path, lambda path, why: refused.append((path.name, why)))
    assert found == (checkpoint.folder_of(tmp_path, 1), BatcherState(10, (1,)))
    ((name, told),) = refused
    assert name == "refused-2"
    assert told.startswith(f"checkpoint-2: {reason}")
    make(tmp_path, 2, 3)  # the run resumes from 1, and does these steps again
    assert checkpoint.take_newest(tmp_path, lambda *_: pytest.fail("refused")) is not None
    forget_checkpoints(tmp_path, 1, keep_best=False)
    assert checkpoint.whole(tmp_path) == [checkpoint.folder_of(tmp_path, 3)]


def test_a_stage_without_one_good_checkpoint_ends_with_what_to_do(tmp_path: Path) -> None:
    make(tmp_path, 1, 2)
    for step in (1, 2):
        (checkpoint.folder_of(tmp_path, step) / "model.safetensors").unlink()
    for _ in range(2):  # a second try does not begin at step 0 in silence
        with pytest.raises(WeightsRefused, match=r"none of the checkpoints .* from a backup"):
            checkpoint.take_newest(tmp_path, lambda *_: None)


def test_a_stage_that_wrote_no_checkpoint_to_its_end_begins(tmp_path: Path) -> None:
    checkpoint.folder_of(tmp_path, 1).mkdir()
    assert checkpoint.take_newest(tmp_path, lambda *_: pytest.fail("refused")) is None
    assert checkpoint.take_newest(tmp_path / "none", lambda *_: pytest.fail("refused")) is None


def test_a_sealed_folder_tells_of_a_change(tmp_path: Path) -> None:
    folder = tmp_path / "sft"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"w")
    assert not checkpoint.is_sealed(folder), "a kill may have come before its end"
    checkpoint.seal(folder)
    checkpoint.check_seal(folder)
    (folder / "model.safetensors").write_bytes(b"v")
    with pytest.raises(WeightsRefused, match=r"model.safetensors is not .*delete .*sft"):
        checkpoint.check_seal(folder)


def test_the_files_of_sealed_folders_are_found_by_content(tmp_path: Path) -> None:
    for stage in ("initial", "sft", "dpo"):
        (tmp_path / stage).mkdir()
        (tmp_path / stage / "model.safetensors").write_bytes(stage.encode())
    checkpoint.seal(tmp_path / "initial")
    checkpoint.seal(tmp_path / "sft")
    (tmp_path / "sft.sha256.json").write_text("{")
    (file,) = checkpoint.sealed_files(tmp_path).values()
    assert file == tmp_path / "initial" / "model.safetensors"
    assert checkpoint.sealed_files(tmp_path) == {file_digest(file): file}
