"""Answers that are JSON of a given shape."""

import json

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from assay_reward.measurement import Candidate, Measured, Sitting, Verifier, task_check
from assay_reward.schemas import parse_json, schema_of
from assay_shared.answers.extraction import Extract, extract
from assay_shared.config import Config
from assay_shared.types import Status, Task

_FIELD = "task.checks.json_schema.schema"


class Shape(BaseModel):
    """What `task.checks.json_schema` says: `{"schema": {...}}`, in draft 2020-12."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wanted: dict[str, JsonValue] = Field(alias="schema")

    @property
    def text(self) -> str:
        return json.dumps(self.wanted)


class JSONOptions(Config):
    """Which part of an answer is the JSON; without fences, all of it."""

    extract: Extract = Extract.FENCED


def _json_schema(candidate: Candidate, options: JSONOptions) -> Measured:
    """1 for JSON that the schema allows, else 0."""
    schema = schema_of(candidate.sitting.check("json_schema", Shape).text, _FIELD)
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
    return _wrong(fault) if fault else Measured(1.0, Status.ACCEPTED, "as the schema says")


def _wrong(why: str) -> Measured:
    return Measured(0.0, Status.WRONG_ANSWER, why[:200])


def _reads(sitting: Sitting, options: JSONOptions) -> float:
    return schema_of(sitting.check("json_schema", Shape).text, _FIELD).reads


def _has_schema(task: Task, options: JSONOptions) -> None:
    schema_of(task_check(task, "json_schema", Shape).text, _FIELD)


JSON_SCHEMA = Verifier(_json_schema, JSONOptions, _has_schema, reads=_reads)
