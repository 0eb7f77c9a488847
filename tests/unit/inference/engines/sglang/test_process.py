"""SGLang's version is checked before any start."""

from pathlib import Path

import pytest

from assay_inference.engines.sglang.process import check_version
from assay_inference.settings import InferenceSettings
from assay_shared.errors import ConfigError
from tests.support.sglang.interpreter import make_python


@pytest.mark.parametrize("version", ["0.5.16", "0.5.18.post1", "0.5.23"])
def test_supported_versions_fit(tmp_path: Path, version: str) -> None:
    settings = InferenceSettings(inference_sglang_python=make_python(tmp_path, version))
    assert check_version(settings) == version


@pytest.mark.parametrize("version", ["0.5.15", "0.5.24", "0.6.0"])
def test_others_are_refused_in_one_line(tmp_path: Path, version: str) -> None:
    settings = InferenceSettings(inference_sglang_python=make_python(tmp_path, version))
    message = f"has SGLang {version} .0.5.16 to 0.5.23 are supported"
    with pytest.raises(ConfigError, match=message) as raised:
        check_version(settings)
    assert raised.value.field == "ASSAY_INFERENCE_SGLANG_PYTHON"
    assert "\n" not in str(raised.value)


def test_an_environment_without_it_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no SGLang in the environment of"):
        check_version(InferenceSettings())
