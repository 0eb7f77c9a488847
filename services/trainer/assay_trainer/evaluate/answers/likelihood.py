"""Choice tasks by likelihood: the option to which the policy gives the highest log-probability.

Nothing is sampled. With raw prompts, `letters` reads " A" after the question, its lettered options
and "Answer:", and `texts` reads " " and the option's text after "Question: ..." and "Answer:". A
raw prompt with "Answer:" at its end stays as it is. In a chat, the reply is "Answer: A", or the
text.
"""

from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from assay_shared.answers.choices.options import LETTERS
from assay_shared.clients import InferenceClient
from assay_shared.errors import AssayError, InvalidInput, Unreachable, to_failure
from assay_shared.runtime.gather import gather
from assay_shared.types import LogprobsRequest, Message, PolicyVersion, PromptFormat, Status, Task
from assay_trainer.data.importers.choices import INSTRUCTION
from assay_trainer.evaluate.answers.echoes import echoed_logprobs, sum_of_logprobs
from assay_trainer.evaluate.answers.server import OpenAIServer
from assay_trainer.evaluate.sets import asked
from assay_trainer.evaluation.records import protocol as protocols
from assay_trainer.evaluation.records.sample_record import SampleRecord

_ANSWER = "Answer:"


@dataclass(frozen=True)
class OptionText:
    """A text whose end is an option: a raw prompt or messages, and the option's text after them."""

    prompt: str | None
    messages: tuple[Message, ...] | None
    continuation: str


class OptionReader(Protocol):
    """A reader of options: the sum of the log-probabilities of its tokens, and their number."""

    async def read(self, option: OptionText) -> tuple[float, int]: ...


@dataclass(frozen=True)
class ServiceReader:
    """Reads by the inference service."""

    client: InferenceClient
    template: dict[str, JsonValue]
    version: PolicyVersion

    async def read(self, option: OptionText) -> tuple[float, int]:
        is_chat = option.messages is not None
        found = await self.client.prompt_logprobs(
            LogprobsRequest(
                prompt=option.prompt,
                messages=option.messages,
                template=self.template if is_chat else {},
                continuation=option.continuation,
            )
        )
        if found.policy != self.version:
            raise Unreachable(
                f"version {found.policy.version} was read where version {self.version.version} "
                "is measured",
                service="inference",
            )
        return sum_of_logprobs(found.logprobs[found.continues_at :], "inference")


@dataclass(frozen=True)
class ServerReader:
    """Reads by an OpenAI-compatible server whose text completions can echo their prompt."""

    server: OpenAIServer
    model: str

    async def read(self, option: OptionText) -> tuple[float, int]:
        if option.prompt is None:
            raise InvalidInput(
                "a server reads no options in chats",
                field="protocol.prompt_format",
                hint="--prompt-format raw reads them after raw prompts",
            )
        reply = await self.server.complete(
            "/completions",
            {
                "model": self.model,
                "prompt": option.prompt + option.continuation,
                "echo": True,
                "max_tokens": 1,
                "temperature": 0.0,
                "logprobs": 1,
            },
        )
        return echoed_logprobs(reply, option.prompt, option.continuation)


def option_texts(task: Task, protocol: protocols.Protocol) -> dict[str, OptionText]:
    """Return what is read for each option of a task, by its letter."""
    task = asked(task, protocol)
    options = _options(task)
    by_text = protocol.options is protocols.OptionForm.TEXTS
    lettered = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    question = task.prompt.removesuffix(INSTRUCTION).rstrip()
    if question.endswith(lettered):
        question = question.removesuffix(lettered).rstrip()
        # A line for the question and one for each option, as the published harness has it.
        question = question if by_text else f"{question}\n{lettered}"
    found = {}
    for letter, text in options.items():
        said = text if by_text else letter
        if task.prompt_format is PromptFormat.RAW:
            found[letter] = OptionText(_raw_context(question, by_text), None, f" {said}")
        else:
            content = question if by_text else task.prompt
            messages = (*task.history, Message(role="user", content=content))
            found[letter] = OptionText(None, messages, said if by_text else f"Answer: {said}")
    return found


def _raw_context(question: str, by_text: bool) -> str:
    if question.endswith(_ANSWER):
        return question
    return f"Question: {question}\n{_ANSWER}" if by_text else f"{question}\n{_ANSWER}"


def _prompt_of(option: OptionText) -> dict[str, str]:
    """Return the literal prompt before an option; that of a chat is made by its template."""
    return {} if option.prompt is None else {"prompt": option.prompt}


def _options(task: Task) -> dict[str, str]:
    """Return the texts of a task's options by their letters.

    Raises:
        InvalidInput: its check `choice` has no options.
    """
    choice = task.checks.get("choice")
    options = choice.get("options") if isinstance(choice, dict) else None
    if not isinstance(options, list) or not options:
        raise InvalidInput(f"{task.id} has no options", field="task.checks.choice")
    return dict(zip(LETTERS, map(str, options), strict=False))


async def read_task(task: Task, protocol: protocols.Protocol, reader: OptionReader) -> SampleRecord:
    """Return the sample of a task: the most likely option, or the failure to read one."""
    record = SampleRecord(
        task_id=task.id, index=0, text="", num_tokens=0, truncated=False, outcome=None
    )
    texts = option_texts(task, protocol)
    try:
        read = await gather(reader.read(one) for one in texts.values())
    except AssayError as error:
        return record.model_copy(update={"failure": to_failure(error, "inference")})
    logprobs = {letter: one[0] for letter, one in zip(texts, read, strict=True)}
    tokens = {letter: one[1] for letter, one in zip(texts, read, strict=True)}
    is_mean = protocol.option_score is protocols.OptionScore.MEAN
    scores = {one: logprobs[one] / tokens[one] if is_mean else logprobs[one] for one in texts}
    chosen = max(scores, key=lambda one: scores[one])
    choice = task.checks["choice"]
    is_right = isinstance(choice, dict) and chosen == choice.get("answer")
    return record.model_copy(
        update={
            "text": chosen,
            "outcome": Status.ACCEPTED if is_right else Status.WRONG_ANSWER,
            "reward": float(is_right),
            "components": {"likelihood": float(is_right)},
            "details": {"likelihood": f"chose {chosen}"} | _prompt_of(texts[chosen]),
            "option_logprobs": logprobs,
            "option_tokens": tokens,
        }
    )
