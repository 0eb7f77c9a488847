"""Secrets in the wrong place of a configuration are refused, and never shown."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from assay_judge.config import JudgeConfig
from assay_reward.executor.config import ExecutorConfig
from assay_reward.executor.executor import make_executor
from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import load_config

SECRET = "hunter2-made-up"
WRONG = [
    ("base_url", f"http://user:{SECRET}@127.0.0.1:9000/v1", "has a user or a password"),
    ("base_url", f"http://{SECRET}@127.0.0.1:9000/v1", "has a user or a password"),
    ("base_url", f"http://127.0.0.1:9000/v1?api_key={SECRET}", "has a query"),
    ("base_url", f"http://127.0.0.1:9000/v1#{SECRET}", "has a query or a fragment"),
    ("base_url", f"user:{SECRET}@127.0.0.1/v1", "is not an http address"),
    ("base_url", f"http://host:{SECRET}/v1", "is not an http address"),
    ("api_key_env", SECRET, "is not the name of an environment variable"),
]


@pytest.mark.parametrize("config", [ExecutorConfig, JudgeConfig])
@pytest.mark.parametrize(("field", "value", "said"), WRONG)
def test_a_secret_in_the_wrong_place_is_refused_unshown(
    config: type[ExecutorConfig | JudgeConfig], field: str, value: str, said: str, tmp_path: Path
) -> None:
    name = "models" if config is ExecutorConfig else "chain"
    kind = "" if config is ExecutorConfig else "kind: openai, "
    address = "" if field == "base_url" else 'base_url: "http://127.0.0.1/v1", '
    file = tmp_path / "models.yaml"
    file.write_text(f'{name}:\n  - {{{kind}name: a, model: m, {address}{field}: "{value}"}}\n')
    with pytest.raises(ConfigError) as raised:
        load_config(config, file)
    assert raised.value.field == f"{name}.0.{field}"
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("field", ["api_key_env", "api_key_file"])
def test_a_missing_key_is_not_shown_if_its_name_may_be_the_key(field: str) -> None:
    value = "AKIA" + "MADEUPMADEUP1234"
    model = {"name": "a", "base_url": "http://127.0.0.1/v1", "model": "m", field: value}
    with pytest.raises(ConfigError) as raised:
        make_executor(ExecutorConfig.model_validate({"models": [model]}), None, CollectorRegistry())
    assert raised.value.field == field
    assert value not in str(raised.value)
