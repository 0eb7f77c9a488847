"""Prompts, and what a process said of a folder and answered to them."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assay_shared.errors import DatasetError
from assay_shared.runs.json_lines import read_json_lines

_MAX_PROMPTS = 1000


class HandoffPrompt(BaseModel):
    """A row of --prompts: `prompt`, a question, or `messages`, a conversation."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    prompt: str | None = Field(default=None, min_length=1)
    messages: tuple[dict[str, str], ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> "HandoffPrompt":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give exactly one of prompt and messages")
        return self

    @property
    def turns(self) -> list[dict[str, str]]:
        if self.messages is not None:
            return list(self.messages)
        return [{"role": "user", "content": str(self.prompt)}]


#: Short questions of different kinds, which an instructed model answers in a few words.
SENTINELS = tuple(
    HandoffPrompt(prompt=text)
    for text in (
        "Hello.",
        "What is 6 times 7?",
        "Write solve(x). Return x plus 1.",
        "Name the capital of France in one word.",
        "Is water wet? Answer yes or no.",
        "Translate to German: good morning.",
        "Sort these numbers: 5, 3, 9, 1.",
        'Say "done" and nothing else. \u2713',
    )
)


class ForeignAnswer(BaseModel):
    """An answer with, for each token, the log-probabilities of the most probable tokens."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    #: By token, most probable first; as pairs of id and log-probability.
    top: tuple[tuple[tuple[int, float], ...], ...] = ()
    ended: bool
    text: str = ""


class FolderAccount(BaseModel):
    """What transformers found in a folder, and answered from it."""

    model_class: str
    num_parameters: int
    num_expected: int
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    dtype: str
    num_embeddings: int
    num_tokens: int
    largest_id: int
    special_tokens: dict[str, int]
    #: Special tokens that do not come back as themselves.
    broken_specials: tuple[str, ...] = ()
    #: End tokens by the place that names them.
    ends: dict[str, tuple[int, ...]]
    #: End tokens that the tokenizer does not mark as special, with their texts.
    ordinary_ends: dict[int, str] = {}
    has_template: bool
    #: The first prompt, without and with the generation prompt; an error's text in place of both.
    rendered: tuple[str, str] | None = None
    template_error: str | None = None
    #: The first token that the template puts after a reply, and its text.
    template_end: tuple[int, str] | None = None
    template_end_error: str | None = None
    answers: tuple[ForeignAnswer, ...] = ()
    #: Prompts that do not fit in the context.
    num_too_long: int = 0
    #: Settings of generation_config.json that change greedy answers, and those of sampling.
    greedy_settings: dict[str, str] = {}
    sampling_settings: dict[str, str] = {}
    #: Greedy answers that differ with the folder's settings; None if they were not tried.
    num_changed: int | None = None
    settings_error: str | None = None
    versions: dict[str, str] = {}
    seconds: float = 0.0


def read_prompts(file: Path | None) -> tuple[HandoffPrompt, ...]:
    """Return the prompts of a file of JSON lines, or of text lines; without one, the built-in ones.

    Raises:
        DatasetError: a row cannot be used, or the file has none, or too many.
    """
    if file is None:
        return SENTINELS
    if file.suffix in (".txt", ".md"):
        lines = file.read_text().splitlines()
        found = [HandoffPrompt(prompt=line) for line in lines if line.strip()]
    else:
        found = list(read_json_lines(file, HandoffPrompt.model_validate))
    if not 0 < len(found) <= _MAX_PROMPTS:
        raise DatasetError(
            f"{file} has {len(found)} prompts: 1 to {_MAX_PROMPTS} are asked", field="--prompts"
        )
    return tuple(found)


def shown_tokens(account: FolderAccount, ids: tuple[int, ...]) -> list[Any]:
    """Return end tokens by their texts, where they have one."""
    texts = {number: text for text, number in account.special_tokens.items()}
    return [texts.get(one, one) for one in ids]
