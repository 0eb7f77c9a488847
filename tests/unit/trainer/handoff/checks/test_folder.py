"""Whether weights, configuration and tokenizer belong together."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from assay_shared.errors import WeightsRefused
from assay_trainer.handoff.checks.check import CheckVerdict
from assay_trainer.handoff.checks.folder import (
    architecture,
    check_tokenizer,
    parameters,
    vocabulary,
    written_files,
)
from assay_trainer.handoff.writing.tensors import WrittenWeights, read_weights
from assay_trainer.learner.network.model import train_tokenizer
from tests.support.policies import TEXTS, make_policy_folder
from tests.unit.trainer.handoff.checks.test_texts import account

PASS, FAIL, _ = CheckVerdict
WRITTEN = WrittenWeights({}, 2, 100, 400, {"float32": 100}, 100, (), is_rounded=False)


def test_a_tokenizer_with_more_ids_than_rows_is_refused(tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "mine")
    weights = read_weights(tmp_path / "mine", None)
    check_tokenizer(tmp_path / "mine", weights)
    words = [f"{a}{b}{a}{b} " * 9 for a in "abcdefghij" for b in "klmnopqrst"]
    train_tokenizer([*TEXTS, *words], 500).save_pretrained(tmp_path / "other")
    with pytest.raises(WeightsRefused, match=r"other has ids up to \d+ .* has 301 rows"):
        check_tokenizer(tmp_path / "other", weights)


def test_a_tokenizer_with_other_ids_than_the_checkpoints_own_is_refused(tmp_path: Path) -> None:
    mine, same, other = (tmp_path / name for name in ("mine", "same", "other"))
    make_policy_folder(mine)
    weights = read_weights(mine, None)
    shutil.copytree(mine, same)
    check_tokenizer(same, weights, mine)
    shutil.copytree(mine, other)
    file = other / "tokenizer.json"
    content = json.loads(file.read_text())
    ids = content["model"]["vocab"]
    ids["A"], ids["B"] = ids["B"], ids["A"]
    file.write_text(json.dumps(content))
    check_tokenizer(other, weights)
    with pytest.raises(WeightsRefused, match=r"other gives '[AB]' the id \d+, and that of .*mine"):
        check_tokenizer(other, weights, mine)


def test_a_tokenizer_with_far_fewer_ids_than_rows_is_refused(tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "mine")
    weights = read_weights(make_large(tmp_path / "large"), None)
    with pytest.raises(WeightsRefused, match=r"mine has 301 ids, and .* has 400 rows"):
        check_tokenizer(tmp_path / "mine", weights)


def make_large(folder: Path) -> Path:
    """Return a folder with more rows in its embedding."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({"model.embed_tokens.weight": torch.ones(400, 2)}, folder / "model.safetensors")
    return folder


def test_the_class_that_config_json_names_is_loaded() -> None:
    assert architecture({"architectures": ["M"]}, account()).verdict is PASS
    assert architecture({"architectures": ["N"]}, account()).verdict is FAIL
    assert "no class" in architecture({}, account()).evidence


@pytest.mark.parametrize(
    "values",
    [{"num_parameters": 99}, {"missing": ("a",)}, {"unexpected": ("b",)}, {"mismatched": ("c",)}],
)
def test_each_weight_is_there_and_no_other(values: dict[str, Any]) -> None:
    assert parameters(account(num_parameters=100, num_expected=100), WRITTEN, {}).verdict is PASS
    usual = {"num_parameters": 100, "num_expected": 100}
    assert parameters(account(**(usual | values)), WRITTEN, {}).verdict is FAIL


def test_packed_weights_are_not_counted() -> None:
    config = {"quantization_config": {"quant_method": "gptq"}}
    assert parameters(account(), WRITTEN, config).verdict is CheckVerdict.SKIPPED


def test_rows_without_a_token_are_told_and_tokens_without_a_row_fail() -> None:
    spare = vocabulary({"vocab_size": 10}, account(num_tokens=8, largest_id=7))
    assert spare.verdict is PASS
    assert spare.evidence.endswith("2 rows have no token")
    assert vocabulary({"vocab_size": 10}, account(largest_id=10)).verdict is FAIL
    assert vocabulary({"text_config": {"vocab_size": 11}}, account()).verdict is FAIL


def test_files_that_the_disk_changed_fail() -> None:
    assert written_files({"a": "1", "b": "2"}, {"a": "1"}).verdict is PASS
    assert written_files({"a": "0"}, {"a": "1"}).verdict is FAIL
