"""Names of other stages in texts of a pipeline file: how they are found and replaced."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

STAGE = "stage:"
SERVER = "{server}"
#: A word in braces, as a placeholder is: JSON and YAML in braces have more than one word.
_PLACEHOLDER = re.compile(r"\{\s*([A-Za-z_]+)\s*\}")
_STAGE_PLACEHOLDER = re.compile(r"\{stage:([^{}]*)\}")


def _known_placeholders(text: str) -> str:
    return _checked(text, ("{folder}",))


def _known_in_command(text: str) -> str:
    return _checked(text, ("{folder}", SERVER))


def _checked(text: str, known: tuple[str, ...]) -> str:
    if "\0" in text:
        raise ValueError("a word may not hold the character NUL")
    for found in _PLACEHOLDER.finditer(text):
        if found[0] not in known:
            raise ValueError(f"there is no {found[0]}: give {', '.join(known)} or {{stage:NAME}}")
    return text


#: A text in which {folder} is the stage's own folder, and {stage:NAME} that of another one.
FilledText = Annotated[str, AfterValidator(_known_placeholders)]
#: The same, in which {server} is the address of the policy that the stage serves.
CommandWord = Annotated[str, AfterValidator(_known_in_command)]
StageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]


def stages_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield the stages named by texts as {stage:NAME}."""
    for text in texts:
        yield from _STAGE_PLACEHOLDER.findall(text)


def stages_in_values(values: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the stages named within JSON values as {stage:NAME}."""
    yield from stages_in([json.dumps(dict(values))])


def stage_of(policy: str | None) -> Iterator[str]:
    """Yield the stage that a policy names as `stage:NAME`."""
    if policy is not None and policy.startswith(STAGE):
        yield policy.removeprefix(STAGE)


def filled(text: str, folders: Mapping[str, str], own: str) -> str:
    """Return a text with folders in the place of {folder} and {stage:NAME}."""
    text = text.replace("{folder}", own)
    for name, folder in folders.items():
        text = text.replace(f"{{{STAGE}{name}}}", folder)
    return text


def filled_value(value: JsonValue, folders: Mapping[str, str]) -> JsonValue:
    """Return a JSON value whose texts have folders in the place of {stage:NAME}."""
    if isinstance(value, str):
        return filled(value, folders, "{folder}")
    if isinstance(value, list):
        return [filled_value(one, folders) for one in value]
    if isinstance(value, dict):
        return {key: filled_value(one, folders) for key, one in value.items()}
    return value
