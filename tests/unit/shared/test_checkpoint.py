import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from assay_shared import checkpoint
from assay_shared.errors import WeightsRefused


def write(weights: bytes) -> Callable[[Path], dict[str, str]]:
    def fill(folder: Path) -> dict[str, str]:
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(weights)
        return {"model.safetensors": hashlib.sha256(weights).hexdigest()}

    return fill


def test_a_digest_is_of_the_weights_alone(tmp_path: Path) -> None:
    first = checkpoint.publish(tmp_path / "v1", write(b"abc"))
    assert checkpoint.digest(tmp_path / "v1") == first
    (tmp_path / "v1" / "config.json").write_text('{"changed": true}')
    assert checkpoint.digest(tmp_path / "v1") == first
    (tmp_path / "v1" / "model.safetensors").write_bytes(b"abd")
    assert checkpoint.digest(tmp_path / "v1") != first


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, str]:
        (folder / "config.json").write_text("{}")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoint.publish(tmp_path / "v1", fail)
    assert not (tmp_path / "v1").exists()
    checkpoint.publish(tmp_path / "v1", write(b"abc"))
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]


def test_what_is_no_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WeightsRefused, match="there is no checkpoint folder"):
        checkpoint.digest(tmp_path / "none")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(WeightsRefused, match="is not a checkpoint"):
        checkpoint.digest(tmp_path)
