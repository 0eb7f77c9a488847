"""Run files: closed YAML configuration with dotted overrides and clear errors, and its provenance.

A run file describes a run; addresses and secrets of the deployment are in `environment.py`.
"""

import difflib
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from assay_shared.errors import ConfigError
from assay_shared.settings.brief_validation import brief_validator, first_errors
from assay_shared.settings.strict_yaml import RepeatedKey, read_strict_yaml
from assay_shared.settings.validation import message_of
from assay_shared.text.listing import some_of
from assay_shared.types.described import Described

#: The type of an error about a value that may be a secret: the message does not show it.
UNSHOWN = "unshown"
#: Number of errors searched for an unknown key.
_MOST_ERRORS = 1000
_MOST_SHOWN = 200
_NO_HOME = "names a home folder that is not there; write the whole path"
#: Endings of pydantic's names for errors about a value of another kind.
_OTHER_KIND = ("_type", "literal_error")


class Config(Described, BaseModel):
    """Base of all configuration: frozen; an unknown key or an infinite number is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _from_home(cls, value: Any) -> Any:
        """Return a path that begins with `~` from the home folder, and any other value as it is."""
        if isinstance(value, tuple) and any(isinstance(one, Path) for one in value):
            return tuple(map(_expanded, value))
        return _expanded(value)


def _expanded(value: Any) -> Any:
    try:
        return from_home(value, "") if isinstance(value, Path) else value
    except ConfigError:
        raise ValueError(_NO_HOME) from None


def from_home(path: Path, field: str) -> Path:
    """Return a path that begins with `~` from the home folder, and any other path as it is.

    Raises:
        ConfigError: there is no such home folder; names the `field`.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError(f"{_NO_HOME}, not {str(path)!r:.{_MOST_SHOWN}}", field=field) from None


AnyConfig = TypeVar("AnyConfig", bound=BaseModel)


def load_config(cls: type[AnyConfig], path: Path, overrides: tuple[str, ...] = ()) -> AnyConfig:
    """Return the YAML file at `path` with `key.path=value` overrides, checked against `cls`.

    Raises:
        ConfigError: a key is unknown, or its value is wrong; names the key, and for an unknown key
            the nearest known key.
    """
    return parse_config(cls, read_values(path, overrides), source=path.name)


def read_values(path: Path, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the mapping in a YAML file with `key.path=value` overrides.

    Raises:
        ConfigError: see `read_yaml`; or an override has another form.
    """
    values = read_yaml(path)
    for override in overrides:
        apply_override(values, override)
    return values


def parse_config(
    cls: type[AnyConfig], values: object, source: str, context: object = None
) -> AnyConfig:
    """Check `values` against `cls` and return the result. Validators of `cls` get the `context`.

    Raises:
        ConfigError: see `load_config`; names the `source`.
    """
    try:
        found: AnyConfig = brief_validator(cls, strict=True).validate_python(
            values, context=context
        )
    except ValidationError as error:
        raise _first_error(cls, values, first_errors(error, most=_MOST_ERRORS), source) from None
    return found


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises:
        ConfigError: the file cannot be read, or it is not YAML, or not a mapping, or has a key
            twice.
    """
    try:
        values = read_strict_yaml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not YAML that can be read: too deeply nested") from None
    except RepeatedKey as error:
        raise ConfigError(f"{path}: {error}", field=error.key) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold a mapping of keys, not {type(values).__name__}")
    return values


def section_of(values: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """Return the section of a dotted key, made where it is missing or null, and the last part.

    Raises:
        ConfigError: a part of the key is not a section.
    """
    *parents, last = key.split(".")
    for parent in parents:
        if values.get(parent) is None:
            values[parent] = {}
        values = values[parent]
        if not isinstance(values, dict):
            raise ConfigError(f"{parent} is not a section", field=key)
    return values, last


def dotted_settings(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of all sections by their dotted names; an empty section is a setting."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from dotted_settings(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set an override `a.b.c=value` in `values`; the value is read as YAML.

    Raises:
        ConfigError: it has another form, or a part of its key is not a section.
    """
    key, sign, text = override.partition("=")
    if not sign or not key:
        raise ConfigError(f"override {override!r} must look like section.key=value")
    section, last = section_of(values, key)
    try:
        section[last] = read_strict_yaml(text)
    except RepeatedKey as error:
        raise ConfigError(f"{text[:_MOST_SHOWN]!r} has a key twice", field=error.key) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"{text[:_MOST_SHOWN]!r} is not a YAML value", field=key) from None


def _first_error(
    cls: type[BaseModel], values: object, errors: list[dict[str, Any]], source: str
) -> ConfigError:
    # An unknown key, such as a misspelt required key, often causes the other errors.
    error = next((e for e in errors if e["type"] == "extra_forbidden"), None)
    if error is None:
        error = _most_telling(values, errors)
    key = ".".join(_written(values, error))
    if error["type"] == "extra_forbidden":
        *parents, name = error["loc"]
        hint = did_you_mean(str(name), _known_keys(cls, tuple(parents)))
        more = _others(values, errors, error)
        return ConfigError(f"unknown key in {source}", field=key, hint="; ".join([hint, *more]))
    if error["type"] == "missing":
        hint = "; ".join(_others(values, errors, error))
        return ConfigError(f"missing from {source}", field=key, hint=hint or None)
    is_shown = error["type"] != UNSHOWN and not isinstance(error["input"], dict | list)
    shown = "" if not is_shown else f", not {error['input']!r:.200}"
    message = message_of(error)
    if error["type"] == "literal_error" and _takes_list(values, errors, error):
        message += " or a list"
    return ConfigError(f"{message}{shown} in {source}", field=key or None)


def _others(values: object, errors: list[dict[str, Any]], first: dict[str, Any]) -> list[str]:
    """Return a phrase with the other keys that have the first error's type; none if it is alone.

    A key in a section of several kinds is left out: it may be right for another kind.
    """
    keys = dict.fromkeys(
        ".".join(map(str, one["loc"]))
        for one in errors
        if one["type"] == first["type"]
        and one["loc"] != first["loc"]
        and len(_written(values, one)) == len(one["loc"])
    )
    if not keys:
        return []
    word = "missing" if first["type"] == "missing" else "unknown"
    return [f"also {word}: {some_of(list(keys))}"]


def _takes_list(values: object, errors: list[dict[str, Any]], error: dict[str, Any]) -> bool:
    """Return True if a list would be right, too, where this error is."""
    place = _written(values, error)
    return any(
        one["type"] in ("list_type", "tuple_type") and _written(values, one) == place
        for one in errors
    )


def _most_telling(values: object, errors: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first error; of a union's errors about one value, that of the fitting kind."""
    first = _written(values, errors[0])

    def fit(error: dict[str, Any]) -> tuple[int, bool]:
        place = _written(values, error)
        is_same = place[: len(first)] == first
        return len(place) if is_same else -1, not error["type"].endswith(_OTHER_KIND)

    return max(errors, key=fit)


def _written(values: object, error: dict[str, Any]) -> list[str]:
    """Return the path of an error through the values as written, without the names of kinds."""
    found: list[str] = []
    for place, part in enumerate(error["loc"], start=1):
        is_missing = error["type"] == "missing" and place == len(error["loc"])
        if _has(values, part):
            values = values[part]  # type: ignore[index]
        elif not is_missing:
            continue
        found.append(str(part))
    return found


def _has(values: object, part: int | str) -> bool:
    if isinstance(values, list | tuple):
        return isinstance(part, int) and part < len(values)
    return isinstance(values, dict) and part in values


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known key nearest to `name`; without a near one, with all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known keys: {', '.join(sorted(known))}"


def _known_keys(cls: type[BaseModel], parents: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the model under `parents`.

    Of a union, the member of the written kind counts; without a known kind, all members do.
    """
    models = [cls]
    for part in parents:
        nested = [
            inner
            for model in models
            if part in model.model_fields
            for inner in _models_in(model.model_fields[str(part)].annotation)
        ]
        # Indices and discriminator tags are steps within the annotation just entered.
        models = nested or [one for one in models if _is_kind(one, part)] or models
    return sorted({name for model in models for name in model.model_fields})


def _is_kind(model: type[BaseModel], part: int | str) -> bool:
    fields = model.model_fields.values()
    return any(part in get_args(one.annotation) for one in fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def provenance() -> dict[str, object]:
    """Return the git commit (null outside a checkout) and the versions of installed packages."""
    installed = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    return {"git_commit": _git_commit(), "packages": dict(sorted(installed.items()))}


def _git_commit() -> str | None:
    here = Path(__file__).parent
    try:
        shown = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip()
