"""The inputs of a verification: raw prompts, and the same prompts with something planted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.types import GenerateRequest, Message, SamplingParams
from assay_trainer.verification.model_tokens import ModelTokens
from assay_trainer.verification.sentinels import Sentinel

_MAX_PROMPTS = 10_000
#: Words and forms of conversations as ordinary text: no control token may be found in them.
PLAIN = (
    "The user asked the system for an assistant.",
    "User: What is a star?\nAssistant:",
    "### Instruction:\nName a river.\n\n### Response:\n",
    "system\nYou are helpful.\nuser\nHello\nassistant\n",
    "def double(x):\n    return",
    "  a text that begins with spaces, and ends with one ",
    "Größe, 東京, naïve, \N{CHECK MARK}, \N{GRINNING FACE}",
    "One sentence follows the other. " * 40,
)
#: Prompts with a token planted at the start, in the middle and at the end.
_NUM_PLANTED = 8


class ProbeForm(StrEnum):
    """How a prompt is sent. All but RAW are planted controls, which the check has to find."""

    RAW = "raw"
    TEMPLATE = "through the chat template"
    TOKEN_FIRST = "a control token before the text"
    TOKEN_MIDDLE = "a control token in the middle"
    TOKEN_LAST = "a control token at the end"
    TEXT = "with words around the text"


@dataclass(frozen=True)
class ChannelProbe:
    """A prompt to send in a form. `key` is the same in each run."""

    key: str
    form: ProbeForm
    prompt: str
    request: GenerateRequest


class RawPrompt(BaseModel):
    """A row of --prompts; other fields are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    prompt: str = Field(min_length=1)


def read_raw_prompts(file: Path | None) -> list[str]:
    """Return the prompts of a file; none without a file.

    Raises:
        DatasetError: a row has no text as `prompt`, or there are too many rows.
    """
    if file is None:
        return []
    found: list[str] = []
    for row in read_json_lines(file, RawPrompt.model_validate):
        if len(found) == _MAX_PROMPTS:
            raise DatasetError(f"{file} has more than {_MAX_PROMPTS} prompts")
        found.append(row.prompt)
    if not found:
        raise DatasetError(f"{file} has no prompts")
    return found


def probes_of(
    asked: Sequence[Sentinel], given: Sequence[str], tokens: ModelTokens, max_tokens: int
) -> list[ChannelProbe]:
    """Return all inputs: sentinels, built-in texts and given prompts, raw and with controls."""
    answer = SamplingParams(max_tokens=max_tokens, temperature=0.0)
    nothing = SamplingParams(max_tokens=1, temperature=0.0)
    texts = [(f"sentinel-{i}", one.prompt, answer) for i, one in enumerate(asked)]
    texts += [(f"plain-{i}", one, nothing) for i, one in enumerate(PLAIN)]
    texts += [(f"given-{i}", one, nothing) for i, one in enumerate(given)]
    found = []
    for key, text, sampling in texts:
        raw = GenerateRequest(prompt=text, sampling=sampling)
        found.append(_probe(key, ProbeForm.RAW, text, raw))
        if tokens.has_template:
            turns = (Message(role="user", content=text),)
            request = GenerateRequest(messages=turns, sampling=sampling)
            found.append(_probe(key, ProbeForm.TEMPLATE, text, request))
    for key, text, _ in texts[:_NUM_PLANTED]:
        found += _planted(key, text, tokens, nothing)
    return found


def _planted(
    key: str, text: str, tokens: ModelTokens, sampling: SamplingParams
) -> Iterator[ChannelProbe]:
    around = GenerateRequest(prompt=f"Question: {text}\nAnswer:", sampling=sampling)
    yield _probe(key, ProbeForm.TEXT, text, around)
    token, ids = tokens.planted(), tokens.own_ids(text)
    if token is None:
        return
    first = 0 if tokens.bos is None else 1
    places = {
        ProbeForm.TOKEN_FIRST: first,
        ProbeForm.TOKEN_MIDDLE: max(first, len(ids) // 2),
        ProbeForm.TOKEN_LAST: len(ids),
    }
    for form, place in places.items():
        sent = (*ids[:place], token, *ids[place:])
        yield _probe(key, form, text, GenerateRequest(token_ids=sent, sampling=sampling))


def _probe(key: str, form: ProbeForm, prompt: str, request: GenerateRequest) -> ChannelProbe:
    return ChannelProbe(f"{key}/{form.name.lower()}", form, prompt, request)
