"""A folder loaded by plain transformers in its own process."""

import json
from pathlib import Path

import pytest

from assay_trainer.handoff.engines.answers import read_prompts
from assay_trainer.handoff.engines.fresh import AskedFolder, Asking, ask_transformers
from tests.support.policies import make_policy_folder


@pytest.mark.slow
def test_a_folders_own_settings_are_tried_and_left_out_of_the_compared_answers(
    tmp_path: Path,
) -> None:
    """With every answer's tokens suppressed, the settings change each answer."""
    make_policy_folder(tmp_path / "model", sharpness=3.0)
    asked = AskedFolder(tmp_path / "model", tmp_path / "model")
    asking = Asking(read_prompts(None)[:2], 4, "cpu", 100.0)
    plain = ask_transformers(asked, asking)
    assert (plain.greedy_settings, plain.num_changed) == ({}, None)
    file = tmp_path / "model" / "generation_config.json"
    used = sorted({token for one in plain.answers for token in one.token_ids})
    settings = {"suppress_tokens": used, "temperature": 0.6}
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    found = ask_transformers(asked, asking)
    assert found.answers == plain.answers
    assert found.num_changed == len(found.answers) == 2
    assert list(found.greedy_settings) == ["suppress_tokens"]
    assert found.sampling_settings["temperature"] == "0.6"


@pytest.mark.slow
def test_a_quantization_that_a_training_left_behind_can_be_ignored(tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "model", sharpness=3.0)
    file = tmp_path / "model" / "config.json"
    left = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    file.write_text(json.dumps(json.loads(file.read_text()) | left))
    asked = AskedFolder(tmp_path / "model", tmp_path / "model", unquantized=True)
    found = ask_transformers(asked, Asking(read_prompts(None)[:1], 2, "cpu", 100.0))
    assert len(found.answers) == 1
