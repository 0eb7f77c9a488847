"""What the policy is asked, and how its answer is checked."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from assay_shared.types.wire import Utf8Text, Wire


class Role(StrEnum):
    """What a task may be used for; opening a `test` task for training is an error."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Comparison(StrEnum):
    """How printed and expected text are compared.

    `lines`: trailing whitespace of lines and trailing empty lines do not count. `tokens`: only what
    whitespace separates does. `unordered`: lines in any order. `numbers`: tokens, of which numbers
    may differ by `tolerance`, absolutely or relatively to what is expected. `loose`: lines without
    regard to case and the whitespace around them; one that is a number may differ by less than
    `tolerance` times what is expected. Numbers are decimal, in ASCII digits; an infinity is close
    to itself only, and NaN to NaN.
    """

    EXACT = "exact"
    LINES = "lines"
    TOKENS = "tokens"
    UNORDERED = "unordered"
    NUMBERS = "numbers"
    LOOSE = "loose"


class StdinCase(Wire):
    """Run the program on `stdin`; it passes if what it prints is `expected_stdout`."""

    #: Says that this case is a program's input and output.
    kind: Literal["stdin"] = "stdin"
    #: What the program reads.
    stdin: str
    #: What it should print.
    expected_stdout: Utf8Text
    #: How printed and expected text are compared.
    compare: Comparison = Comparison.LINES
    #: For `numbers` and `loose`: how far a number may be off.
    tolerance: float = Field(default=1e-6, ge=0, le=1)


class CallCase(Wire):
    """Call `function(*args)`; it passes if the value returned equals `expected`.

    A returned tuple, or array of numpy's, equals the JSON list of its items. `expected` never
    enters the program's process.
    """

    #: Says that this case is a call.
    kind: Literal["call"] = "call"
    #: The name of the program's function.
    function: str
    #: Its arguments, as JSON.
    args: tuple[JsonValue, ...]
    #: The value that it should return, as JSON.
    expected: JsonValue


class AssertCase(Wire):
    """Test code to run after the program; it passes if nothing is raised.

    It runs in a process of its own, where the program's names stand for what the program's process
    has; see `Grading`.
    """

    #: Says that this case is test code.
    kind: Literal["assert"] = "assert"
    #: Python code, which raises where the program is wrong.
    code: str


TestCase = Annotated[StdinCase | CallCase | AssertCase, Field(discriminator="kind")]


class PromptFormat(StrEnum):
    """How a prompt becomes token ids: through the chat template, or exactly as it stands."""

    CHAT = "chat"
    RAW = "raw"


class Message(Wire):
    """One turn of a conversation."""

    #: Who speaks.
    role: Literal["system", "user", "assistant"]
    #: What is said.
    content: str


class EnvironmentTask(Wire):
    """Which environment a task is played in, in at most `max_turns` replies of the policy.

    `instance` is what the environment needs, its labels included; a policy never sees it.
    """

    #: One of `GET /v1/environments`.
    name: str
    #: What the environment needs, its labels included; a policy never sees it.
    instance: dict[str, JsonValue]
    #: The replies that an episode may have.
    max_turns: int = Field(default=8, ge=1, le=64)


class Task(Wire):
    """One thing to solve, and what is needed to score an answer to it."""

    #: What the task is called in messages and results. Tasks of a dataset need one each.
    id: str = "unnamed"
    #: The dataset that it is from.
    dataset: str = ""
    #: What it may be used for. Tasks of a dataset have to say it.
    role: Role = Role.TEST
    #: What the policy was asked. A judge reads it as the question, and needs it.
    prompt: str = ""
    #: How the prompt becomes tokens.
    prompt_format: PromptFormat = PromptFormat.CHAT
    #: What was said before the prompt, in a chat.
    history: tuple[Message, ...] = ()
    #: The rubric that scores its answers, by name; a request may name it in its place.
    rubric: str = ""
    #: A known right answer, in the form a policy would give it.
    gold: str | None = None
    #: What verifier and judge compare an answer with; `gold` where it is not set.
    reference: str | None = None
    #: The tests of a program; all of one kind.
    tests: tuple[TestCase, ...] = ()
    #: What single verifiers need beside these, by the verifier's name.
    checks: dict[str, JsonValue] = {}
    #: Set for tasks of several turns; `prompt` is then the first observation.
    environment: EnvironmentTask | None = None
    #: Text put before an answer to make it a whole program (HumanEval's prompt).
    code_prefix: str = ""
    #: Facts for grouping results: domain, family, difficulty.
    tags: dict[str, str] = {}

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation that an answer goes on."""
        return (*self.history, Message(role="user", content=self.prompt))

    @model_validator(mode="after")
    def _history_is_a_chats(self) -> "Task":
        if self.history and self.prompt_format is PromptFormat.RAW:
            raise ValueError("history goes with the prompt format `chat`")
        return self
