"""Reads secrets from files (`ASSAY_<NAME>_FILE`), as Docker and Kubernetes mount them."""

import json
import os
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from assay_shared.errors import ConfigError

#: Settings that a file may hold; `client_tokens` is JSON.
IN_FILES = (
    "token",
    "inference_token",
    "sandbox_token",
    "judge_token",
    "reward_token",
    "trainer_token",
    "client_tokens",
    "redis_password",
    "redis_url",
)
_JSON = "client_tokens"


class SecretFiles(PydanticBaseSettingsSource):
    """Settings source with the content of each named file, without whitespace around it."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the content of the field's file, the field's name, and False.

        Raises:
            ConfigError: the file cannot be read, or the variable is set as well.
        """
        variable = f"ASSAY_{field_name.upper()}"
        file = os.environ.get(f"{variable}_FILE", "")
        if field_name not in IN_FILES or not file:
            return None, field_name, False
        if os.environ.get(variable):
            raise ConfigError(f"give either this or {variable}", field=f"{variable}_FILE")
        return _read(Path(file), f"{variable}_FILE", field_name == _JSON), field_name, False

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields
        values = {name: self.get_field_value(field, name)[0] for name, field in fields.items()}
        return {name: value for name, value in values.items() if value is not None}


def _read(path: Path, variable: str, is_json: bool) -> object:
    try:
        text = path.read_text().strip()
        value: object = json.loads(text) if is_json else text
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{path} cannot be read: {reason}", field=variable) from None
    except ValueError:
        raise ConfigError(f"{path} is not JSON", field=variable) from None
    if not text:
        raise ConfigError(f"{path} is empty", field=variable)
    return value
