"""Tasks: the prompt for the policy, and the tests or reference to check its answer."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from assay_shared.types.wire import Utf8Text, Wire


class Role(StrEnum):
    """The permitted use of a task; opening a `test` task for training is an error."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Comparison(StrEnum):
    """The way to compare printed and expected text.

    `lines`: trailing whitespace of lines and trailing empty lines do not count. `tokens`: only the
    tokens between whitespace count. `unordered`: lines in any order. `numbers`: tokens; numbers may
    differ by `tolerance`, absolutely or relatively to the expected number. `loose`: lines without
    regard to case and the whitespace around them; a line with a number may differ by less than
    `tolerance` times the expected number. Numbers are decimal, in ASCII digits; an infinity is
    close to itself only, and NaN to NaN.
    """

    EXACT = "exact"
    LINES = "lines"
    TOKENS = "tokens"
    UNORDERED = "unordered"
    NUMBERS = "numbers"
    LOOSE = "loose"


class StdinCase(Wire):
    """Run the program on `stdin`; it passes if its output is `expected_stdout`."""

    #: Marks a case of a program's input and output.
    kind: Literal["stdin"] = "stdin"
    #: The program's standard input.
    stdin: str
    #: The expected output of the program.
    expected_stdout: Utf8Text
    #: How printed and expected text are compared.
    compare: Comparison = Comparison.LINES
    #: For `numbers` and `loose`: how far a number may be off.
    tolerance: float = Field(default=1e-6, ge=0, le=1)


class CallCase(Wire):
    """Call `function(*args)`; it passes if the returned value equals `expected`.

    A returned tuple or numpy array equals the JSON list of its items. `expected` never enters the
    program's process.
    """

    #: Marks a call of a function.
    kind: Literal["call"] = "call"
    #: The name of the program's function.
    function: str
    #: Arguments of the call, as JSON.
    args: tuple[JsonValue, ...]
    #: The value that the function should return, as JSON.
    expected: JsonValue


class AssertCase(Wire):
    """Test code to run after the program; it passes if nothing is raised.

    The test code runs in its own process. There, the program's names stand for the objects in the
    program's process; see `Grading`.
    """

    #: Marks test code.
    kind: Literal["assert"] = "assert"
    #: Python code to raise an error if the program is wrong.
    code: str


TestCase = Annotated[StdinCase | CallCase | AssertCase, Field(discriminator="kind")]


class PromptFormat(StrEnum):
    """The way from a prompt to token ids: through the chat template, or as it stands.

    A raw prompt begins with the model's first token (BOS) if its tokenizer puts one before texts.
    """

    CHAT = "chat"
    RAW = "raw"


class Message(Wire):
    """A turn of a conversation."""

    #: The speaker.
    role: Literal["system", "user", "assistant"]
    #: The text of the message.
    content: str


class EnvironmentTask(Wire):
    """The environment of a task, for an episode of at most `max_turns` replies of the policy.

    `instance` is the environment's data for the task, labels included; a policy never sees it.
    """

    #: One of `GET /v1/environments`.
    name: str
    #: The environment's data for the task, labels included; a policy never sees it.
    instance: dict[str, JsonValue]
    #: The most replies of an episode.
    max_turns: int = Field(default=8, ge=1, le=64)


class Task(Wire):
    """A problem for the policy, with everything needed to score an answer."""

    #: The task's name in messages and results. Each task of a dataset needs its own id.
    id: str = "unnamed"
    #: The dataset that the task is from.
    dataset: str = ""
    #: The permitted use of the task. Tasks of a dataset must state it.
    role: Role = Role.TEST
    #: The prompt for the policy. A judge reads it as the question, and needs it.
    prompt: str = ""
    #: How the prompt becomes tokens.
    prompt_format: PromptFormat = PromptFormat.CHAT
    #: Messages before the prompt, in a chat.
    history: tuple[Message, ...] = ()
    #: The rubric that scores its answers, by name; a request may name another.
    rubric: str = ""
    #: A known right answer, in the form a policy would give it.
    gold: str | None = None
    #: Verifiers and judges compare an answer with this text; with `gold` if it is not set.
    reference: str | None = None
    #: The tests of a program; all of one kind.
    tests: tuple[TestCase, ...] = ()
    #: Further data for single verifiers, by the verifier's name.
    checks: dict[str, JsonValue] = {}
    #: Set for tasks of several turns; `prompt` is then the first observation.
    environment: EnvironmentTask | None = None
    #: Text put before an answer to make it a whole program (HumanEval's prompt).
    code_prefix: str = ""
    #: Facts for grouping results: domain, family, difficulty.
    tags: dict[str, str] = {}

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation before an answer."""
        return (*self.history, Message(role="user", content=self.prompt))

    @model_validator(mode="after")
    def _history_is_a_chats(self) -> "Task":
        if self.history and self.prompt_format is PromptFormat.RAW:
            raise ValueError("history goes with the prompt format `chat`")
        return self
