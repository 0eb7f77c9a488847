"""Configuration of a model."""

import pytest
from pydantic import JsonValue

from assay_shared.errors import ConfigError
from assay_shared.providers.config import ModelConfig
from assay_shared.settings.run_file import parse_config

MODEL = {"name": "a", "base_url": "http://127.0.0.1/v1", "model": "m"}


@pytest.mark.parametrize(
    "extra", [{"messages": [], "model": "evil"}, {"stream": True}, {"top_k": 1, "n": 2}]
)
def test_fields_that_assay_sets_are_not_extra(extra: JsonValue) -> None:
    with pytest.raises(ConfigError, match="is set by Assay itself") as raised:
        parse_config(ModelConfig, MODEL | {"extra_body": extra}, "a file")
    assert raised.value.field == "extra_body"
    found = parse_config(ModelConfig, MODEL | {"extra_body": {"top_k": 1}}, "a file")
    assert found.extra_body == {"top_k": 1}
