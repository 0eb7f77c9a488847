"""Forms against jsonschema and `re`: random walks over the tokens allowed by a form."""

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from assay_inference.engines.transformers.held_form import HeldForm
from assay_inference.engines.transformers.model import open_model
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.errors import InvalidInput
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import PolicyVersion, Structure
from tests.support.policies import make_policy_folder

MAX_TOKENS = 400
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"enum": ["good", "bad", 3, None, ["x"]]},
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 5},
            "score": {"type": "integer", "minimum": 1, "maximum": 10},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{1,3}$"}},
        },
        "required": ["name", "score"],
        "additionalProperties": False,
    },
    {"anyOf": [{"const": "é\N{GRINNING FACE}"}, {"type": "null"}]},
    {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"},
    {"type": "number"},
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> PolicyTokenizer:
    quiet_transformers()
    folder = tmp_path_factory.mktemp("policies") / "v0"
    make_policy_folder(folder)
    policy = PolicyVersion(version=0, digest="d")
    return open_model(folder, policy, torch.device("cpu")).vocabulary


def walk(form: HeldForm, vocabulary: PolicyTokenizer, seed: int) -> str | None:
    """Return a text of random tokens allowed by the form; None if it does not come to an end.

    The form's end is taken as soon as it is allowed.
    """
    choose = random.Random(seed)
    drawn: list[int] = []
    for _ in range(MAX_TOKENS):
        allowed = form.allowed().nonzero()[:, 0].tolist()
        ends = [one for one in allowed if one in vocabulary.end_ids]
        if ends:
            return vocabulary.decode(drawn)
        drawn.append(choose.choice(allowed))
        if form.take(drawn[-1]):
            return vocabulary.decode(drawn)
    return None


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_what_comes_to_its_end_is_valid(
    schema: dict[str, Any], vocabulary: PolicyTokenizer
) -> None:
    form = HeldForm.compile(Structure(json_schema=schema), vocabulary)
    texts = [walk(form.copy(), vocabulary, seed) for seed in range(25)]
    whole = [text for text in texts if text is not None]
    assert len(whole) >= 10
    for text in whole:
        jsonschema.validate(json.loads(text), schema)
    if "enum" in schema:
        assert len(set(whole)) > 1, "samples are independent"


@pytest.mark.parametrize("regex", ["[0-9]{3}-(a|b)", "(é|ü){2}", r"[0-9]+\.[0-9]{2} EUR", "a?b?"])
def test_a_regex_is_matched_whole(regex: str, vocabulary: PolicyTokenizer) -> None:
    form = HeldForm.compile(Structure(regex=regex), vocabulary)
    for seed in range(20):
        text = walk(form.copy(), vocabulary, seed)
        assert text is None or re.fullmatch(regex, text)


@pytest.mark.parametrize(
    "structure",
    [
        Structure(json_schema={"type": "banana"}),
        Structure(json_schema={"type": "string", "not": {"const": "a"}}),
        Structure(json_schema={"not": {}, "x-guidance": {"lenient": True}}),
        Structure(json_schema={"$ref": "#"}),
        Structure(json_schema={"enum": ["x" * 300_000]}),
        Structure(json_schema={"allOf": [{"type": "string"}, {"type": "number"}]}),
        Structure(regex="(unclosed"),
        Structure(regex="(?=a)b"),
        Structure(regex=r"(a)\1"),
    ],
    ids=lambda structure: structure.model_dump_json(exclude_defaults=True)[:50],
)
def test_what_cannot_be_held_to_is_refused(
    structure: Structure, vocabulary: PolicyTokenizer
) -> None:
    with pytest.raises(InvalidInput) as refused:
        HeldForm.compile(structure, vocabulary)
    assert refused.value.field == "sampling.structure"
    assert len(refused.value.message) < 600


@pytest.mark.parametrize(
    "structure",
    [
        Structure(regex="((a{1,99}){1,99}){1,99}b"),
        Structure(regex="(.*a){50}" + "(a|aa)*" * 200),
        Structure(regex="[a-z]{1,5000}" * 100),
        Structure(json_schema={"type": "string", "minLength": 10**9}),
        Structure(json_schema={"type": "array", "minItems": 10**7}),
        Structure(json_schema={"type": "integer", "multipleOf": 999983, "minimum": 10**15}),
        Structure(
            json_schema={"anyOf": [{"properties": {f"p{i}": {}}} for i in range(1000)]},
        ),
        Structure(choice=tuple(f"{i:0300d}" for i in range(1000))),
    ],
    ids=lambda structure: structure.model_dump_json(exclude_defaults=True)[:50],
)
def test_hostile_forms_take_seconds_at_most(
    structure: Structure, vocabulary: PolicyTokenizer
) -> None:
    """A refusal may come at compilation or later."""
    started = time.process_time()
    try:
        form = HeldForm.compile(structure, vocabulary)
        for _ in range(50):
            if form.take(int(form.allowed().nonzero()[0, 0])):
                break
    except InvalidInput as error:
        assert error.field == "sampling.structure"  # noqa: PT017  # both outcomes are right
    assert time.process_time() - started < 5


def test_a_tokens_bytes_are_its_part_of_the_text(
    vocabulary: PolicyTokenizer, tmp_path: Path
) -> None:
    for text in ("x plus é", "\N{GRINNING FACE}\N{ZERO WIDTH JOINER}ß", " \n\t ab "):
        ids = vocabulary.encode(text)
        assert b"".join(map(vocabulary.bytes_of, ids)).decode() == text
    for end in vocabulary.end_ids:
        assert vocabulary.is_special(end)
        name = vocabulary.tokenizer.convert_ids_to_tokens(end)
        assert vocabulary.bytes_of(end).decode() == name
