"""Sources of answers behind `Generator`: the inference service, and stored answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    StrictBool,
    model_validator,
)

from assay_shared.errors import DatasetError, InvalidInput
from assay_shared.interfaces import Generator
from assay_shared.runs.json_lines import read_json_lines
from assay_shared.text.half_characters import find_half_character
from assay_shared.types import (
    Completion,
    FinishReason,
    GenerateRequest,
    GenerateResponse,
    PolicyVersion,
)

#: Of one stored answer: more is a mistake, and would cost memory.
MAX_TOKENS = 2**20
#: The version of answers whose weights nobody knows.
UNKNOWN = PolicyVersion(version=0, digest="")


class Templated:
    """A generator whose chat template gets arguments."""

    def __init__(self, generator: Generator, arguments: Mapping[str, JsonValue]) -> None:
        self._generator = generator
        self._arguments = dict(arguments)

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        if self._arguments and (request.messages is not None or request.then):
            request = request.model_copy(update={"template": self._arguments})
        return await self._generator.generate(request)


class StoredAnswer(BaseModel):
    """A line of a file of answers."""

    model_config = ConfigDict(coerce_numbers_to_str=True, extra="forbid")

    task_id: str
    text: str
    #: Sampled tokens, if they are known.
    num_tokens: NonNegativeInt | None = Field(default=None, le=MAX_TOKENS)
    truncated: StrictBool = False
    #: The set that it belongs to, if several sets have a task of this id.
    set: str | None = Field(default=None)

    @model_validator(mode="after")
    def _a_text_has_tokens(self) -> Self:
        if self.num_tokens == 0 and self.text:
            raise ValueError("num_tokens is 0 with a text: leave it out where it is not known")
        return self


class StoredGenerator:
    """Gives the stored answers to a task from number `first` on."""

    def __init__(self, answers: Sequence[StoredAnswer], first: int) -> None:
        self._answers = answers[first:]

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        """Return as many answers as asked for, with no more than their number of tokens known."""
        taken = self._answers[: request.sampling.n]
        return GenerateResponse(prompt_token_ids=(), completions=tuple(map(_completion, taken)))


def _completion(answer: StoredAnswer) -> Completion:
    num_tokens = answer.num_tokens or 0
    return Completion(
        token_ids=(0,) * num_tokens,
        logprobs=(0.0,) * num_tokens,
        text=answer.text,
        finish_reason=FinishReason.LENGTH if answer.truncated else FinishReason.STOP,
        policy=UNKNOWN,
    )


def read_answers(path: Path) -> dict[tuple[str | None, str], list[StoredAnswer]]:
    """Return the stored answers of each set and task id, in the order of their lines.

    Raises:
        DatasetError: a line cannot be used; names file, line and field.
    """
    found: dict[tuple[str | None, str], list[StoredAnswer]] = {}
    for answer in read_json_lines(path, _stored_answer):
        found.setdefault((answer.set, answer.task_id), []).append(answer)
    if not found:
        raise DatasetError(f"{path} has no answers")
    return found


def _stored_answer(row: object) -> StoredAnswer:
    answer = StoredAnswer.model_validate(row)
    half = find_half_character(row)
    if half is not None:
        name = ".".join(map(str, half)).encode(errors="backslashreplace").decode()
        raise DatasetError("must be Unicode text without lone surrogates", field=name)
    return answer


def answers_to(
    found: Mapping[tuple[str | None, str], list[StoredAnswer]],
    set_name: str,
    task_id: str,
    wanted: int,
) -> list[StoredAnswer]:
    """Return the stored answers to a task of a set.

    Raises:
        InvalidInput: there are not as many as the protocol takes.
    """
    answers = found.get((set_name, task_id)) or found.get((None, task_id)) or []
    if len(answers) != wanted:
        raise InvalidInput(
            f"{task_id} of {set_name} has {len(answers)} answers, and the protocol takes {wanted}",
            field="--answers",
            hint="--protocol sampled --samples N takes N a task; --limit and --sets fewer tasks",
        )
    return answers
