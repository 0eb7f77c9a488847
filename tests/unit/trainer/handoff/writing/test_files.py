"""The files next to the weights: what a training leaves behind stays behind."""

import json
from pathlib import Path

import pytest

from assay_shared.errors import WeightsRefused
from assay_trainer.handoff.writing.files import clean_config, read_config, write_files


def test_leftovers_of_a_training_are_removed_and_told() -> None:
    config = {
        "hidden_size": 4,
        "_name_or_path": "/home/me/base",
        "use_cache": False,
        "torch_dtype": "float32",
        "text_config": {"_attn_implementation": "sdpa", "hidden_size": 4},
        "quantization_config": {"quant_method": "bitsandbytes"},
    }
    cleaned, changes = clean_config(config, "bfloat16")
    assert cleaned == {
        "hidden_size": 4,
        "use_cache": True,
        "dtype": "bfloat16",
        "text_config": {"hidden_size": 4},
    }
    assert changes == (
        "_name_or_path removed",
        "text_config._attn_implementation removed",
        "use_cache set to true",
        "quantization_config removed",
        "dtype set to bfloat16, which the weights have (it was float32)",
    )


def test_a_configuration_without_leftovers_stays() -> None:
    config = {"hidden_size": 4, "dtype": "bfloat16", "use_cache": True}
    assert clean_config(config, "bfloat16") == (config, ())


def test_the_tokenizer_is_copied_as_it_is_and_the_rest_left_out(tmp_path: Path) -> None:
    source, into = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    into.mkdir()
    for name in ("tokenizer.json", "chat_template.jinja", "optimizer.pt", "trainer_state.json"):
        (source / name).write_text(name)
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates" / "rag.jinja").write_text("rag")
    found = write_files(source, source, {"eos_token_id": 2, "pad_token_id": None}, "float32", into)
    assert (into / "tokenizer.json").read_text() == "tokenizer.json"
    assert (into / "additional_chat_templates" / "rag.jinja").read_text() == "rag"
    assert found.left_out == ("optimizer.pt", "trainer_state.json")
    generation = json.loads((into / "generation_config.json").read_text())
    assert generation == {"_from_model_config": True, "eos_token_id": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1]", "not a JSON object"), ("{", "is not JSON"), ('{"auto_map": {}}', "has auto_map")],
)
def test_a_configuration_that_cannot_be_handed_off_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(WeightsRefused, match=message):
        read_config(tmp_path)
