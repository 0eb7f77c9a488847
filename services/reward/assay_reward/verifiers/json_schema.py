"""Answers in JSON, checked against a schema."""

import json

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from assay_reward.answers.json_schema import parse_json, schema_of
from assay_reward.verifiers.verifier import (
    AnswerContext,
    GroupContext,
    Measurement,
    Verifier,
    task_check,
)
from assay_shared.answers.extraction import Extract, extract
from assay_shared.settings.run_file import Config
from assay_shared.types import Status, Task

_FIELD = "task.checks.json_schema.schema"


class SchemaCheck(BaseModel):
    """The check `task.checks.json_schema`: `{"schema": {...}}`, in draft 2020-12."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wanted: dict[str, JsonValue] = Field(alias="schema")

    @property
    def text(self) -> str:
        return json.dumps(self.wanted)


class JSONOptions(Config):
    """The part of an answer with the JSON; an answer without fences is JSON as a whole."""

    extract: Extract = Extract.FENCED


def _json_schema(candidate: AnswerContext, options: JSONOptions) -> Measurement:
    """Return 1 for JSON allowed by the schema, else 0."""
    schema = schema_of(candidate.group.check("json_schema", SchemaCheck).text, _FIELD)
    given = extract(candidate.text, options.extract)
    if given is None and options.extract is Extract.FENCED:
        given = candidate.text
    if given is None:
        return _wrong(f"nothing is {options.extract}")
    try:
        fault = schema.fault(parse_json(given))
    except ValueError as error:
        return _wrong(f"not JSON: {error}")
    except RecursionError:
        return _wrong("nested too deeply")
    return _wrong(fault) if fault else Measurement(1.0, Status.ACCEPTED, "as the schema says")


def _wrong(why: str) -> Measurement:
    return Measurement(0.0, Status.WRONG_ANSWER, why[:200])


def _reads(group: GroupContext, options: JSONOptions) -> float:
    return schema_of(group.check("json_schema", SchemaCheck).text, _FIELD).reads


def _has_schema(task: Task, options: JSONOptions) -> None:
    schema_of(task_check(task, "json_schema", SchemaCheck).text, _FIELD)


JSON_SCHEMA = Verifier(_json_schema, JSONOptions, _has_schema, reads=_reads)
