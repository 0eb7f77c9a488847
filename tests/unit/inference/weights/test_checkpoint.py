"""Checkpoints accepted by an engine as further versions of its served model."""

import json
import math
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from assay_inference.weights.checkpoint import Checkpoint
from assay_shared.errors import WeightsRefused
from assay_shared.types import PolicyVersion
from tests.support.policies import make_policy_folder

POLICY = PolicyVersion(version=1, digest="0" * 64)


@pytest.fixture
def served(tmp_path: Path) -> Checkpoint:
    make_policy_folder(tmp_path / "served")
    return Checkpoint.open(tmp_path / "served", POLICY, None, None)


@pytest.fixture
def further(served: Checkpoint, tmp_path: Path) -> Path:
    folder = tmp_path / "further"
    shutil.copytree(served.folder, folder)
    return folder


def change(file: Path, **entries: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def test_a_tokenizer_that_was_loaded_and_saved_is_the_same(
    served: Checkpoint, further: Path
) -> None:
    AutoTokenizer.from_pretrained(further).save_pretrained(further)
    config = further / "tokenizer_config.json"
    assert config.read_bytes() != (served.folder / config.name).read_bytes()
    opened = Checkpoint.open(further, POLICY, None, served)
    assert opened.vocabulary is served.vocabulary


def test_another_chat_template_is_refused(served: Checkpoint, further: Path) -> None:
    template = further / "chat_template.jinja"
    template.write_text(template.read_text() + "!")
    with pytest.raises(WeightsRefused, match="another chat template than"):
        Checkpoint.open(further, POLICY, None, served)


def test_another_end_token_is_refused(served: Checkpoint, further: Path) -> None:
    change(further / "generation_config.json", eos_token_id=7)
    with pytest.raises(WeightsRefused, match="another set of end tokens than"):
        Checkpoint.open(further, POLICY, None, served)


def test_other_merges_are_refused(served: Checkpoint, further: Path) -> None:
    file = further / "tokenizer.json"
    rules = json.loads(file.read_text())
    change(file, model=rules["model"] | {"merges": rules["model"]["merges"][:-1]})
    with pytest.raises(WeightsRefused, match="another tokenizer than"):
        Checkpoint.open(further, POLICY, None, served)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"rms_norm_eps": math.nan}, "config.json is not JSON: a field is NaN"),
        ({"max_position_embeddings": 0}, "has no positive max_position_embeddings"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(
    served: Checkpoint, further: Path, entries: dict[str, object], message: str
) -> None:
    change(further / "config.json", **entries)
    for before in (None, served):
        with pytest.raises(WeightsRefused, match=message):
            Checkpoint.open(further, POLICY, None, before)
