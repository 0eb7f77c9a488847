"""What crosses a process boundary, in the order the data flows.

task -> sampling -> completion -> group -> execution and tests -> verdict -> reward -> scored group.
Every type is frozen and closed: an unknown field is an error at whichever end reads it.
"""

import base64
import binascii
from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    JsonValue,
    NonNegativeInt,
    PlainSerializer,
    model_validator,
)

from assay_shared.described import Described
from assay_shared.half_characters import is_utf8
from assay_shared.scales import check_distinct, check_scale


class Wire(Described, BaseModel):
    """Base of all wire types."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# Tasks


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


def _shown(text: str) -> str:
    """Put a mark in place of half characters, which no reply could hold."""
    return text if is_utf8(text) else text.encode("utf-8", "replace").decode()


#: For people to read; it may repeat what a policy wrote.
ShownText = Annotated[str, AfterValidator(_shown)]


def _check_utf8(text: str) -> str:
    """Refuse half characters: bytes that are not UTF-8 are read as such ones."""
    if not is_utf8(text):
        raise ValueError("must be Unicode text without lone surrogates")
    return text


Utf8Text = Annotated[str, AfterValidator(_check_utf8)]


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


# Inference

#: Turns of one conversation.
MAX_MESSAGES = 4096


class PolicyVersion(Wire):
    """Which weights: a counter that only grows, and the SHA-256 of the weight files."""

    version: int = Field(ge=0)
    digest: str


class Structure(Wire):
    """What a completion is held to while it is drawn: exactly one of these.

    Log-probabilities are then those among the tokens that were allowed.
    """

    json_schema: dict[str, JsonValue] | None = None
    regex: str | None = Field(default=None, min_length=1, max_length=10_000)
    #: Any JSON object.
    json_object: bool = False
    #: One of these texts, whole.
    choice: tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...] | None = Field(
        default=None, min_length=1, max_length=1000
    )

    @model_validator(mode="after")
    def _one_kind(self) -> "Structure":
        given = [x for x in (self.json_schema, self.regex, self.choice) if x is not None]
        if len(given) + self.json_object != 1:
            raise ValueError("give exactly one of json_schema, regex, json_object and choice")
        return self


class SamplingParams(Wire):
    """How to sample. Temperature 0 is greedy. `seed` makes each of the `n` samples repeatable.

    Log-probabilities are those of the softmax at the temperature (at 1 where it is 0): after
    `structure`, `min_tokens`, `logit_bias` and the penalties, before `min_p`, `top_k` and `top_p`.
    """

    n: int = Field(default=1, ge=1, le=256)
    max_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=1.0, ge=0.0, le=10.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    #: The most probable tokens that may be drawn; 0: all.
    top_k: int = Field(default=0, ge=0)
    #: The least probability of a token that may be drawn, as a share of the greatest one.
    min_p: float = Field(default=0.0, ge=0.0, le=1.0)
    #: Divides positive logits of tokens in the prompt or the completion, multiplies negative ones.
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=10.0)
    #: Is subtracted from the logits of tokens that the completion has.
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    #: Is subtracted for each time that the completion has the token.
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    #: Is added to the logits of these token ids.
    logit_bias: dict[int, Annotated[float, Field(ge=-100.0, le=100.0)]] = Field(
        default={}, max_length=1024
    )
    stop: tuple[str, ...] = Field(default=(), max_length=8)
    #: Token ids that end a sample, as the model's own end tokens do.
    stop_token_ids: tuple[int, ...] = Field(default=(), max_length=64)
    #: Do not stop at the model's own end tokens.
    ignore_eos: bool = False
    #: So many tokens come before an end token, a stop token or a stop string counts.
    min_tokens: int = Field(default=0, ge=0)
    seed: int | None = None
    #: Of each token that is drawn, the log-probabilities of so many most probable ones as well.
    top_logprobs: int = Field(default=0, ge=0, le=20)
    structure: Structure | None = None

    @model_validator(mode="after")
    def _least_within_most(self) -> "SamplingParams":
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}")
        return self

    def ends(self, end_ids: frozenset[int]) -> frozenset[int]:
        """Return the token ids that end a sample of a model whose own end tokens are `end_ids`."""
        return frozenset(self.stop_token_ids) | (frozenset() if self.ignore_eos else end_ids)

    @property
    def counts_its_tokens(self) -> bool:
        """Whether what is drawn next depends on which tokens of the context were drawn before."""
        return bool(
            self.presence_penalty or self.frequency_penalty or self.structure or self.min_tokens
        )


class GenerateRequest(Wire):
    """Exactly one of `token_ids`, `prompt` (tokenised as it stands), `messages` (templated).

    `then` are further turns after `token_ids`, whose last id ends a turn of the assistant: they
    are templated and tokenised by themselves, so that no id that was sampled ever changes.
    """

    token_ids: tuple[int, ...] | None = None
    prompt: str | None = None
    messages: Annotated[tuple[Message, ...], Field(max_length=MAX_MESSAGES)] | None = None
    then: tuple[Message, ...] = Field(default=(), max_length=MAX_MESSAGES)
    sampling: SamplingParams = SamplingParams()

    @model_validator(mode="after")
    def _one_prompt(self) -> "GenerateRequest":
        given = [x for x in (self.token_ids, self.prompt, self.messages) if x is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of token_ids, prompt and messages")
        if len(given[0]) == 0:
            raise ValueError("the prompt is empty")
        if self.then and self.token_ids is None:
            raise ValueError("then goes with token_ids; put further turns into messages")
        return self


class Priority(StrEnum):
    """What a generation is for; inference serves them in this order unless it is told another."""

    EVALUATION = "evaluation"
    INTERACTIVE = "interactive"
    TRAINING = "training"


class FinishReason(StrEnum):
    """Why a completion ended: its own end (or a stop string), or the token limit."""

    STOP = "stop"
    LENGTH = "length"


class Turn(Wire):
    """One reply of a policy within an episode: the ids from `start` up to `end` are its own."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text: str
    #: What the environment answered; empty after the last turn.
    observation: str = ""
    #: The oldest that drew any of it.
    policy: PolicyVersion


class VersionSpan(Wire):
    """So many tokens in a row that one version drew."""

    policy: PolicyVersion
    num_tokens: int = Field(gt=0)


#: Token ids and their natural-log probabilities, the most probable one first.
TopLogprobs = tuple[tuple[int, float], ...]


class Completion(Wire):
    """One sampled answer, or all that followed the first prompt of an episode.

    `logprobs[t]` is the natural-log probability of `token_ids[t]` under the sampling
    distribution's temperature, before top-p. The ending token, where there is one, is the last id.
    Of an episode, `text` and `finish_reason` are the last turn's, `policy` is the oldest of its
    turns, and ids outside of `turns` are observations, whose `logprobs` are 0.

    Where new weights took over on the way, `versions` says in order who drew how many of the
    tokens, each of whose `logprobs` is its own version's; `policy` is then the newest of them.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[FiniteFloat, ...]
    text: str
    finish_reason: FinishReason
    policy: PolicyVersion
    turns: tuple[Turn, ...] = ()
    #: Empty where `policy` drew every token.
    versions: tuple[VersionSpan, ...] = ()
    #: Of each token, the most probable ones with their log-probabilities, where they are asked for.
    top_logprobs: tuple[TopLogprobs, ...] = ()

    @model_validator(mode="after")
    def _every_token_has_one_version(self) -> "Completion":
        if self.versions and sum(s.num_tokens for s in self.versions) != len(self.token_ids):
            raise ValueError("the spans of versions must add up to the tokens")
        return self

    @property
    def policies(self) -> tuple[PolicyVersion, ...]:
        """All that drew any of the tokens, oldest first."""
        return tuple(span.policy for span in self.versions) or (self.policy,)

    @property
    def is_policys(self) -> tuple[bool, ...]:
        """Of each id, whether the policy sampled it: only those may enter a loss."""
        if not self.turns:
            return (True,) * len(self.token_ids)
        return tuple(
            any(turn.start <= at < turn.end for turn in self.turns)
            for at in range(len(self.token_ids))
        )


class GenerateResponse(Wire):
    """The ids that were really sent to the model, and the samples drawn from them."""

    prompt_token_ids: tuple[int, ...]
    completions: tuple[Completion, ...]


class LogprobsRequest(Wire):
    """Token ids to be read, and how many of the most probable ones are wanted at each place."""

    token_ids: tuple[int, ...] = Field(min_length=1)
    top_logprobs: int = Field(default=0, ge=0, le=20)


class PromptLogprobs(Wire):
    """What the policy gives each of the ids that it read, at temperature 1.

    `logprobs[t]` is the natural-log probability of `token_ids[t]` after those before it: None of
    the first. `top_logprobs` is empty where none were asked for, and its first entry always is.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]
    top_logprobs: tuple[TopLogprobs, ...] = ()
    policy: PolicyVersion


class GeneratedText(Wire):
    """A line of a streamed answer: what was added to the sample at `index`."""

    index: int
    text: str


class LogprobProbe(Wire):
    """A fixed sequence and the trainer's log-probabilities of it: proof that weights landed.

    `logprobs[t]` belongs to `token_ids[t + 1]`. Loading fails where the engine's own differs
    by more than `tolerance` nats, or so many times the log-probability where that is more than one
    nat. Without a tolerance, what both sides' arithmetic explains is allowed: `dtype` is that of
    the trainer's weights.
    """

    token_ids: tuple[int, ...] = Field(min_length=2)
    logprobs: tuple[float, ...]
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    tolerance: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _one_logprob_per_prediction(self) -> "LogprobProbe":
        if len(self.logprobs) != len(self.token_ids) - 1:
            raise ValueError("logprobs must be one shorter than token_ids")
        return self


def _check_path(path: str) -> str:
    """Refuse what no file system takes: NUL, and names over 255 bytes or 4,095 in all."""
    if "\0" in path:
        raise ValueError("must not hold the character NUL")
    if len(path.encode()) > 4095 or any(len(name.encode()) > 255 for name in path.split("/")):
        raise ValueError("must have at most 4095 bytes, and 255 in each name")
    return path


FolderPath = Annotated[str, Field(max_length=4095), AfterValidator(_check_path)]


class FolderWeights(Wire):
    """A checkpoint folder that inference can read: on a disk or in a memory that both share.

    The policy's digest is the SHA-256 of its files; or `files_digest` is, where the version was
    announced before under the digest of a manifest.
    """

    kind: Literal["folder"] = "folder"
    path: FolderPath
    files_digest: str | None = None


class UploadedWeights(Wire):
    """A checkpoint folder that was uploaded whole."""

    kind: Literal["upload"] = "upload"
    upload: str


class AdapterWeights(Wire):
    """A LoRA adapter alone, as peft writes it, in the folder `path`.

    `base`: digest of the checkpoint it is for, which has to be the last one that was served whole.
    The digest of its policy is `checkpoint.adapter_digest`.
    """

    kind: Literal["adapter"] = "adapter"
    path: FolderPath
    base: str


class TensorSpec(Wire):
    """One tensor of a direct transfer: `dtype` as torch names it, and the fingerprint of all of it
    (`assay_shared.standalone.weight_transfer.fingerprint`) in 16 hexadecimal digits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Literal["float32", "bfloat16", "float16"]
    fingerprint: str = Field(pattern=r"^[0-9a-f]{16}$")


class DirectWeights(Wire):
    """The trainer's own memory, from which the engine's workers fetch the tensors.

    The trainer waits for them at `host` and `port`; `token` tells its meetings apart, and
    `announcement` counts what is announced from there. `ipc` is for one GPU, `nccl` for several,
    `gloo` for all else. The policy's digest is the SHA-256 of the manifest `tensors`, which are
    sent in this order in buckets of `bucket_bytes`.
    """

    kind: Literal["direct"] = "direct"
    transport: Literal["nccl", "ipc", "gloo"]
    host: str
    port: int = Field(gt=0, lt=65536)
    token: str = Field(min_length=16)
    announcement: int = Field(ge=0)
    bucket_bytes: int = Field(gt=0)
    tensors: tuple[TensorSpec, ...] = Field(min_length=1)


#: Where new weights come from.
WeightSource = Annotated[
    FolderWeights | UploadedWeights | AdapterWeights | DirectWeights, Field(discriminator="kind")
]


class UploadFile(Wire):
    """A file of an upload."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")
    num_bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class UploadRequest(Wire):
    """The files of a checkpoint that is to come in chunks.

    `base` is the digest of the served version, if chunks may be differences from its files; those
    of its files that are the same are not asked for.
    """

    files: tuple[UploadFile, ...] = Field(min_length=1, max_length=1024)
    base: str | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> "UploadRequest":
        if len({file.name for file in self.files}) < len(self.files):
            raise ValueError("two files have the same name")
        return self


class Upload(Wire):
    """How far an upload is: of each file that is not whole, the numbers of the missing chunks.

    Chunk i is the bytes from i * `chunk_bytes`. `base` is null where no difference is taken.
    """

    id: str
    chunk_bytes: int
    base: str | None
    missing: dict[str, tuple[int, ...]]


class SyncMode(StrEnum):
    """What becomes of the sequences in hand when new weights come.

    `wait`: they are finished first. `restart`: they are given up and drawn anew from their prompt.
    `continue`: they keep the tokens they have and go on under the new version.
    """

    WAIT = "wait"
    RESTART = "restart"
    CONTINUE = "continue"


class WeightUpdate(Wire):
    """Ask inference to serve what `source` holds as `policy`."""

    source: WeightSource
    policy: PolicyVersion
    probe: LogprobProbe | None = None
    mode: SyncMode = SyncMode.WAIT


class WeightReceiver(Wire):
    """What a direct transfer has to reach: of each worker its GPU's UUID, or cpu; and the type in
    which they keep weights.
    """

    devices: tuple[str, ...]
    dtype: str


class WeightStatus(Wire):
    """What inference serves; `policy` is null until a checkpoint is loaded."""

    policy: PolicyVersion | None
    #: Null for what came directly from a trainer's memory.
    source: WeightSource | None = None
    #: Largest difference the last probe found, in nats.
    probe_difference: float | None = None
    load_time_s: float | None = None
    #: Tensors of the checkpoint that were compared with the engine's own, and all of them.
    num_compared: int | None = None
    num_tensors: int | None = None
    #: Seconds by phase of the load: start, drain, transfer, load, attest, resume.
    phases_s: dict[str, float] = {}
    #: Of a router, by replica; those with a failure get no requests.
    replicas: dict[str, "ReplicaStatus"] = {}
    #: Null where the engine takes folders alone, or none has started yet.
    receiver: WeightReceiver | None = None


class ReplicaStatus(Wire):
    """What one replica behind a router serves, and why it is passed over where it is."""

    policy: PolicyVersion | None
    num_in_hand: int = 0
    failure: "Failure | None" = None


class WeightDigest(Wire):
    """All that the engine holds, compared with the checkpoint's files or the trainer's manifest.

    Of `num_tensors`, every entry of `num_whole` was compared, and of `num_sampled` more a sample:
    kernels keep them in layouts of their own. `differing` are those that are not as they should be.
    """

    policy: PolicyVersion
    num_tensors: int
    num_whole: int
    num_sampled: int
    differing: tuple[str, ...]
    #: Time in the engine, during which it draws nothing, and to read what it is compared with.
    engine_s: float
    reference_s: float


class Group(Wire):
    """All completions of one task, as inference returned them."""

    key: str
    task: Task
    prompt_token_ids: tuple[int, ...] = ()
    completions: tuple[Completion, ...]


# Sandbox


class Limits(Wire):
    """What one program may use. CPU time is the program's own; wall time bounds idle waiting."""

    #: Processor time, in seconds.
    cpu_time_s: float = Field(default=5.0, gt=0, le=300)
    #: Time by the clock, in seconds.
    wall_time_s: float = Field(default=15.0, gt=0, le=600)
    #: Memory of all its processes.
    memory_bytes: int = Field(default=512 * 2**20, ge=16 * 2**20, le=64 * 2**30)
    #: What it may print, to stdout and stderr each.
    output_bytes: int = Field(default=2**20, ge=0, le=64 * 2**20)
    #: The largest file that it may write.
    file_bytes: int = Field(default=16 * 2**20, ge=0, le=2**30)
    #: Processes and threads at once.
    processes: int = Field(default=64, ge=1, le=4096)


class Status(StrEnum):
    """How a program ended. `sandbox_error` is our fault and never the program's.

    `ungradable`: whether the answer is right cannot be decided without trusting the program, or
    within the limits of grading. It is not accepted, and it is no fault of the sandbox's.
    """

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    COMPILE_ERROR = "compile_error"
    SYNTAX_ERROR = "syntax_error"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    UNGRADABLE = "ungradable"
    SANDBOX_ERROR = "sandbox_error"


COMPILE_LIMITS = Limits(
    cpu_time_s=30.0, wall_time_s=60.0, memory_bytes=2**31, file_bytes=64 * 2**20, processes=128
)


def _from_base64(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("a file's content must be base64") from None


def _check_file_name(name: str) -> str:
    if "\0" in name or not is_utf8(name):
        raise ValueError("a file's name must be Unicode text without NUL")
    path = PurePosixPath(name)
    if name != str(path) or path.is_absolute() or ".." in path.parts or name == ".":
        raise ValueError("a file's name must be a plain path below the program's folder")
    if len(path.parts) > 8 or any(len(part.encode()) > 255 for part in path.parts):
        raise ValueError("a file's name may have 8 parts of 255 bytes")
    return name


def at_most(number: int) -> BeforeValidator:
    """Return a check that refuses a longer list or object before its items are looked at.

    Else each of a million wrong items would become an error.
    """

    def check(value: object) -> object:
        if isinstance(value, list | tuple | dict) and len(value) > number:
            raise ValueError(f"may have {number} items, not {len(value)}")
        return value

    return BeforeValidator(check)


def check_names_together(names: Sequence[str]) -> Sequence[str]:
    """Refuse names that a slot's socket does not carry in one message."""
    if sum(len(name.encode()) for name in names) > MAX_NAMES_BYTES:
        raise ValueError(f"the names may have {MAX_NAMES_BYTES} bytes together")
    return names


#: Base64 in JSON.
FileContent = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    PlainSerializer(lambda data: base64.b64encode(data).decode(), str, when_used="json"),
]
FileName = Annotated[str, AfterValidator(_check_file_name)]


def check_fetch_name(name: str) -> str:
    """Return the name of a file that may be fetched.

    Raises:
        ValueError: it leads out of the program's folders.
    """
    _check_file_name(name.removeprefix("/tmp/"))
    return name


#: A file that a program left: below its folder, or in its /tmp.
FetchName = Annotated[str, AfterValidator(check_fetch_name)]
MAX_FILES = 64
#: Of all names of files to bring back, together.
MAX_NAMES_BYTES = 16_384
FetchedNames = Annotated[
    tuple[FetchName, ...], at_most(MAX_FILES), AfterValidator(check_names_together)
]
Files = Annotated[dict[FileName, FileContent], at_most(MAX_FILES)]
MAX_CASES = 1000


class ProgramRequest(Wire):
    """A program, and what it and its compiler may use."""

    #: The program's text.
    code: str
    #: One of `GET /v1/languages`.
    language: str = "python"
    #: Which packages a Python program finds; `auto` looks at what it imports.
    profile: Literal["auto", "std", "scientific"] = "auto"
    #: Put beside the program, where it starts.
    files: Files = {}
    #: What the program may use.
    limits: Limits = Limits()
    #: What its compiler may use.
    compile_limits: Limits = COMPILE_LIMITS


class ExecutionRequest(ProgramRequest):
    """One program to run once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "print(6 * 7)"}]})

    #: What the program reads.
    stdin: str = ""
    #: Files to bring back, by name.
    fetch_files: FetchedNames = ()


class Compilation(Wire):
    """What the compiler said. `cached`: it had said so before."""

    #: Whether there is a program to run.
    succeeded: bool
    #: What the compiler printed.
    output: str = ""
    #: How long it took, in seconds.
    wall_time_s: float = 0.0
    #: Whether the compiler was ended because it took longer than `compile_limits` allow.
    out_of_time: bool = False
    #: Whether the result is from an earlier request.
    cached: bool = False


class ExecutionResult(Wire):
    """How it ran. `peak_memory_bytes` is null where the host could not tell."""

    #: How the program ended.
    status: Status
    #: What it printed.
    stdout: str = ""
    #: The bytes themselves, where they are no UTF-8; `stdout` then has replacement characters.
    raw_stdout: FileContent | None = None
    #: What it printed to standard error.
    stderr: str = ""
    #: Null where a signal or a limit ended it.
    exit_code: int | None = None
    #: Processor time that it took, in seconds.
    cpu_time_s: float = 0.0
    #: Time by the clock, in seconds.
    wall_time_s: float = 0.0
    #: In which it neither computed nor waited for a core, to 0.1 s: it slept, or waited for others.
    idle_time_s: float = 0.0
    #: The most memory at one time; null where the host could not tell.
    peak_memory_bytes: int | None = None
    #: For people: what the status means here.
    message: str = ""
    #: Null for languages that have no compiler.
    compilation: Compilation | None = None
    #: What was fetched, and why the rest could not be.
    files: dict[str, FileContent] = {}
    #: Files that were asked for and are not there, each with the reason.
    refused_files: dict[str, str] = {}
    #: What stood between the program and the host.
    isolation: str


class Checker(Wire):
    """A program that decides whether what another printed is right: sent as `code`, or `named`.

    It is run as `checker input output answer`, three files, after the program has ended and where
    it never was. Exit code 0 says right, 1 or 2 wrong. One in Python that raises says wrong if it
    accepts the expected output. A checker that ends otherwise decides nothing: the case is
    ungradable.
    """

    #: The program's text; or give `named`.
    code: str | None = None
    #: One of the ready-made checkers, see docs/sandbox.md.
    named: str | None = Field(default=None, max_length=100)
    #: The language of `code`.
    language: str = "python"
    #: What the checker may use.
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _one_program(self) -> "Checker":
        if (self.code is None) == (self.named is None):
            raise ValueError("a checker has either code or named")
        return self


class TestRequest(ProgramRequest):
    """One program, many cases. All cases must be of one kind."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "code": "def double(x):\n    return x * 2",
                    "cases": [{"kind": "call", "function": "double", "args": [4], "expected": 8}],
                },
                {
                    "code": "print(int(input()) + 1)",
                    "cases": [{"kind": "stdin", "stdin": "1", "expected_stdout": "2"}],
                },
            ]
        }
    )

    __test__: ClassVar[bool] = False

    #: All of one kind.
    cases: Annotated[tuple[TestCase, ...], at_most(MAX_CASES)] = Field(min_length=1)
    #: Whether cases after a failed one are left out.
    stop_on_first_failure: bool = False
    #: Whether test code that only the program's own process can decide may be graded there. Where
    #: it may not, such cases are ungradable.
    hackable: bool = True
    #: Judges stdin cases in place of their `compare`.
    checker: Checker | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "TestRequest":
        kinds = {case.kind for case in self.cases}
        if len(kinds) > 1:
            raise ValueError(f"cases must be of one kind, not {', '.join(sorted(kinds))}")
        if self.checker is not None and kinds != {"stdin"}:
            raise ValueError("a checker judges stdin cases only")
        return self


class CaseResult(Wire):
    """One case. Its status is null if it did not run because an earlier one failed.

    Call and assert cases share a process: their `peak_memory_bytes` is that of the process until
    its end.
    """

    #: How the case ended; null if it did not run.
    status: Status | None
    #: For people: what was wrong.
    message: str = ""
    #: Time by the clock, in seconds.
    wall_time_s: float = 0.0
    #: Processor time, in seconds.
    cpu_time_s: float = 0.0
    #: The most memory at one time; null where it is not known.
    peak_memory_bytes: int | None = None


class Grading(StrEnum):
    """Where answers were compared: outside the program's process, or inside it (forgeable).

    `in_process` if one case had to be run in the program's process, which `hackable` allows.
    """

    OUTSIDE = "outside"
    IN_PROCESS = "in_process"


class TestReport(Wire):
    """`status` is accepted if all cases are, else that of the first that is not."""

    __test__: ClassVar[bool] = False

    #: Accepted if all cases are, else that of the first that is not.
    status: Status
    #: One result for each case, in order.
    cases: tuple[CaseResult, ...]
    #: Where answers were compared.
    grading: Grading
    #: Null for languages that have no compiler.
    compilation: Compilation | None = None
    #: What stood between the program and the host.
    isolation: str

    @property
    def num_passed(self) -> int:
        return sum(case.status is Status.ACCEPTED for case in self.cases)

    @property
    def num_ungradable(self) -> int:
        return sum(case.status is Status.UNGRADABLE for case in self.cases)

    @property
    def pass_ratio(self) -> float:
        return self.num_passed / len(self.cases)


class SessionRequest(Wire):
    """A Python interpreter that keeps its names from cell to cell. `limits` are each cell's."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"profile": "std"}]})

    #: Which packages it finds.
    profile: Literal["std", "scientific"] = "std"
    #: Put where it starts, by name, in base64.
    files: Files = {}
    #: What each cell may use.
    limits: Limits = Limits()


class Session(Wire):
    """A session that lives; unused, it ends in `ends_in_s`."""

    #: What requests name it by.
    id: str
    #: Which packages it finds.
    profile: str
    #: What each cell may use.
    limits: Limits
    #: Seconds until it ends unused.
    ends_in_s: float
    #: What stands between it and the host.
    isolation: str


class Cell(Wire):
    """A text to run in a session."""

    #: Python code.
    code: str


class CellResult(Wire):
    """How a cell ran. `result` is the value of its last expression, as `repr` shows it.

    `ended`: the session is gone with all its names, and files.
    """

    #: How the cell ended.
    status: Status
    #: What it printed.
    stdout: str = ""
    #: What it printed to standard error, tracebacks included.
    stderr: str = ""
    #: The value of its last expression; null if there is none.
    result: str | None = None
    #: For people: what the status means here.
    message: str = ""
    #: Processor time, in seconds.
    cpu_time_s: float = 0.0
    #: Time by the clock, in seconds.
    wall_time_s: float = 0.0
    #: Whether the session is gone.
    ended: bool = False


# Failures


class FailureClass(StrEnum):
    """Whose fault. `policy` marks the answer's own fault, which is a score and never a failure.

    `caller`: a request, task or option that cannot be used.
    """

    POLICY = "policy"
    CALLER = "caller"
    SANDBOX = "sandbox"
    JUDGE = "judge"
    NETWORK = "network"
    OVERLOAD = "overload"
    BUDGET = "budget"
    INTERNAL = "internal"


class Failure(Wire):
    """Why a sample has no score. It leaves the loss and the group statistics, and is counted."""

    #: Whose fault it is.
    failure_class: FailureClass
    #: The service in which it happened.
    service: str
    #: For people: what happened and what to do.
    message: ShownText
    #: Whether the same request may succeed later.
    retryable: bool
    #: How often it was tried.
    attempts: int = Field(default=1, ge=0)

    @model_validator(mode="after")
    def _not_the_policys(self) -> "Failure":
        if self.failure_class is FailureClass.POLICY:
            raise ValueError("a fault of the policy is a score, not a failure")
        return self


# Judge


class Label(StrEnum):
    """A judge's finding; UNSURE is a finding too, and not a failure to judge."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    UNSURE = "UNSURE"


class JudgeForm(StrEnum):
    """What is asked of a judge.

    `binary`: whether each answer is right. `graded`: a grade on each criterion. `pairwise`: which
    of two answers is better, asked in both orders. `best_of`: which of several is best, asked in
    rotated orders.
    """

    BINARY = "binary"
    GRADED = "graded"
    PAIRWISE = "pairwise"
    BEST_OF = "best_of"


class Criterion(Wire):
    """One thing to grade, on a scale from `low` to `high` in whole steps."""

    #: What its grade is called.
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")
    #: What the judge is told about it.
    description: str = Field(max_length=4000)
    #: The lowest grade.
    low: int = Field(default=1, ge=-1000, le=1000)
    #: The highest grade.
    high: int = Field(default=5, ge=-1000, le=1000)
    #: How much it counts beside the others.
    weight: float = Field(default=1.0, ge=0.001, le=1000, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_a_scale(self) -> "Criterion":
        check_scale(self.name, self.low, self.high)
        return self


def _distinct(criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    check_distinct([one.name for one in criteria])
    return criteria


Criteria = Annotated[tuple[Criterion, ...], Field(max_length=16), AfterValidator(_distinct)]


#: A prompt is made of it, which is sent in UTF-8.
JudgedText = Annotated[str, AfterValidator(_check_utf8)]


class JudgeRequest(Wire):
    """A group of answers to one question. One judge decides them all, or none is decided."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "question": "The capital of France?",
                    "reference": "Paris",
                    "answers": ["paris.", "Lyon"],
                },
                {
                    "form": "pairwise",
                    "question": "The capital of France?",
                    "reference": "Paris",
                    "answers": ["Lyon", "Paris"],
                },
            ]
        }
    )

    #: What was asked.
    question: JudgedText
    #: One judgement is given for each, in order.
    answers: tuple[JudgedText, ...] = Field(min_length=1, max_length=256)
    #: A right answer; without one the judge knows only the question.
    reference: JudgedText | None = None
    #: What is asked of the judge.
    form: JudgeForm = JudgeForm.BINARY
    #: What is graded, where the form is `graded`.
    criteria: Criteria = ()
    #: A prompt of the operator's in place of the form's own, by name.
    template: str | None = None
    #: What the question is about; a judge may be allowed for some domains only.
    domain: str = ""
    #: Whom the cost is charged to, beside the caller.
    run: str = ""

    @model_validator(mode="after")
    def _fits_its_form(self) -> "JudgeRequest":
        if (self.form is JudgeForm.GRADED) != bool(self.criteria):
            raise ValueError("criteria go with the form `graded`, which needs at least one")
        if self.form is JudgeForm.PAIRWISE and len(self.answers) != 2:
            raise ValueError("the form `pairwise` needs two answers")
        if self.form is JudgeForm.BEST_OF and not 2 <= len(self.answers) <= 16:
            raise ValueError("the form `best_of` needs 2 to 16 answers")
        return self


class Verdict(Wire):
    """A finding, and who made it. `template` is the hash of the prompt that was used."""

    #: Says that there is a verdict.
    status: Literal["judged"] = "judged"
    #: Of the form `binary`.
    label: Label | None = None
    #: In [0, 1]. Graded: the weighted mean of the grades on their scales. Pairwise: 1 for the
    #: better answer, 0.5 for both of a tie. Best-of: the share of orders in which it was the best.
    score: float | None = Field(default=None, ge=0, le=1)
    #: Pairwise and best-of: the index of the answer that was chosen in each order; null for a tie.
    choices: tuple[int | None, ...] = ()
    #: By criterion, on its own scale.
    grades: dict[str, int] = {}
    #: The judge's own words.
    reason: str = ""
    #: The provider or the check that decided.
    judge: str
    #: The hash of the prompt that was used; null where there was none.
    template: str | None = None
    #: Replies that were counted; more than one where the first was in doubt.
    num_votes: int = 1


class Abstention(Wire):
    """No verdict: every judge of the chain failed."""

    #: Says that there is no verdict.
    status: Literal["failed"] = "failed"
    #: Why not.
    failure: Failure


Judgement = Annotated[Verdict | Abstention, Field(discriminator="status")]


class Cost(Wire):
    """What was used up; only what can be counted. `money` is in the unit of the judge's prices."""

    #: Processor time in the sandbox, in seconds.
    sandbox_cpu_s: float = 0.0
    #: Tokens of all prompts and replies.
    judge_tokens: int = 0
    #: Of `judge_tokens`, those of requests whose provider did not say how many it took.
    estimated_tokens: int = 0
    #: In the unit of the judge's prices.
    money: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            sandbox_cpu_s=self.sandbox_cpu_s + other.sandbox_cpu_s,
            judge_tokens=self.judge_tokens + other.judge_tokens,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
            money=self.money + other.money,
        )


class JudgeResponse(Wire):
    """One judgement per answer, in order; all verdicts name the same judge.

    `cost` is what this request cost, all its failed attempts included.
    """

    #: One for each answer, in order.
    judgements: tuple[Judgement, ...]
    #: Of this request, all its failed attempts included.
    cost: Cost = Cost()


# Reward


class RewardComponent(Wire):
    """One term: `value` as measured, in the component's range, and the weight it enters with."""

    #: What the rubric calls it.
    name: str
    #: As measured, within the component's range.
    value: FiniteFloat
    #: The weight it enters with; 0 for a gate.
    weight: FiniteFloat
    #: For people: what was found.
    detail: ShownText = ""


class Scored(Wire):
    """A measurement: what the rubric makes of its components."""

    #: Says that there is a reward.
    status: Literal["scored"] = "scored"
    #: What the rubric makes of its components.
    value: FiniteFloat
    #: What became of the answer, in the sandbox's words; accepted means right.
    outcome: Status
    #: What was measured, gates first.
    components: tuple[RewardComponent, ...]


class Unscored(Wire):
    """No measurement was possible. Never to be read as zero."""

    #: Says that there is no reward; never to be read as 0.
    status: Literal["failed"] = "failed"
    #: Why not.
    failure: Failure


Reward = Annotated[Scored | Unscored, Field(discriminator="status")]

#: A text, or the turns of an episode, oldest first.
Answer = str | Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]


class ScoreRequest(Wire):
    """Score the answers to one task. `rubric` defaults to the task's own.

    The same `key` gets the same rewards, if the first time none failed.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"rubric": "math", "task": {"reference": "2"}, "answers": ["2"]},
                {
                    "rubric": "code.dense",
                    "task": {
                        "prompt": "Write double(x).",
                        "tests": [
                            {"kind": "call", "function": "double", "args": [4], "expected": 8}
                        ],
                    },
                    "answers": ["def double(x):\n    return x * 2", "def double(x):\n    return 0"],
                },
            ]
        }
    )

    #: What was asked, and what answers are compared with.
    task: Task
    #: One reward is given for each, in order.
    answers: tuple[Answer, ...] = Field(min_length=1, max_length=256)
    #: The rubric by name; the task's own if not set.
    rubric: str | None = None
    #: The same key gets the same rewards, measured once.
    key: str | None = Field(default=None, min_length=1, max_length=512)
    #: Whom costs are charged to, beside the caller.
    run: str = ""
    #: The tokens of each answer that the policy sampled, for rubrics that need lengths.
    num_tokens: tuple[NonNegativeInt, ...] = ()
    #: Whether each answer was cut off at its token limit, where that is known.
    truncated: tuple[bool, ...] = ()

    @model_validator(mode="after")
    def _one_each(self) -> "ScoreRequest":
        for name in ("num_tokens", "truncated"):
            if len(getattr(self, name)) not in (0, len(self.answers)):
                raise ValueError(f"{name} must have one entry for each answer, or none")
        return self


class Normalisation(StrEnum):
    """How a trainer makes advantages of a rubric's rewards.

    `group`: minus the group's mean, over its deviation. `batch`: over the batch's deviation.
    `none`: minus the mean alone. `components`: each component within its group, then their
    weighted sum within the batch (GDPO, arXiv 2601.05242).
    """

    GROUP = "group"
    BATCH = "batch"
    NONE = "none"
    COMPONENTS = "components"


class ComponentReport(Wire):
    """What it took to measure a component for a whole group.

    What several components share is charged to the first of them.
    """

    #: What the rubric calls it.
    name: str
    #: From its first to its last measurement, in seconds.
    time_s: float
    #: What it used up.
    cost: Cost = Cost()


class ScoreResponse(Wire):
    """One reward per answer, in order; `scorer` names the rubric and its hash."""

    #: One for each answer, in order.
    rewards: tuple[Reward, ...]
    #: The rubric's name and the hash of all that it computes.
    scorer: str
    #: What a trainer makes of the rewards.
    normalise: Normalisation = Normalisation.GROUP
    #: What each component took.
    components: tuple[ComponentReport, ...] = ()


class ScoreBatch(Wire):
    """Several groups at once."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "requests": [
                        {"rubric": "math", "task": {"reference": "2"}, "answers": ["2", "3"]}
                    ]
                }
            ]
        }
    )

    #: One for each group.
    requests: tuple[ScoreRequest, ...] = Field(min_length=1, max_length=1024)


class GroupFailed(Wire):
    """A group of a batch that could not be scored at all."""

    #: Why the group could not be scored at all.
    failure: Failure


class ScoreBatchResponse(Wire):
    """One per request, in order."""

    #: One for each request, in order.
    responses: tuple[ScoreResponse | GroupFailed, ...]


class PartialReward(Wire):
    """A line of a streamed score: the reward of the answer at `index`, as soon as it is known."""

    #: The answer's place, from 0.
    index: int
    #: Its reward, or why there is none.
    reward: Reward


class RubricInfo(Wire):
    """A rubric as the reward service loaded it; `shares` sum to 1."""

    #: By which requests name it.
    name: str
    #: Its name and the hash of all that it computes.
    scorer: str
    #: One line for people.
    description: str
    #: What a trainer makes of its rewards.
    normalise: Normalisation = Normalisation.GROUP
    #: The lowest and the highest reward it can give.
    lowest: float = 0.0
    #: The highest reward that it can give.
    highest: float = 1.0
    #: How far each component alone moves the reward, as a share.
    shares: dict[str, float]


# Environments


class EnvironmentInfo(Wire):
    """An environment that tasks can be played in."""

    #: By which tasks name it.
    name: str
    #: One line for people.
    description: str


class StepRequest(Wire):
    """All that a policy has said in an episode so far, oldest first; nothing asks for the start."""

    #: The task that is played.
    task: Task
    #: All that the policy has said, oldest first.
    turns: tuple[str, ...] = Field(default=(), max_length=64)


class StepResponse(Wire):
    """What the policy reads next. `parts` are the reward parts of the last turn by name."""

    #: What the policy reads next.
    observation: str
    #: Whether the episode is over.
    done: bool
    #: The reward parts of the last turn, by name.
    parts: dict[str, float] = {}
    #: For people and logs.
    facts: dict[str, JsonValue] = {}


# Rollouts


class GroupRequest(Wire):
    """A unit of rollout work. `key` says what it is: the same key is never counted twice."""

    key: str
    run: str
    task: Task
    sampling: SamplingParams
    priority: Priority = Priority.TRAINING


class ScoredGroup(Wire):
    """What a rollout worker stores once per key: a group with its rewards, or why there is none."""

    group: Group
    rewards: tuple[Reward, ...] = ()
    scorer: str = ""
    normalise: Normalisation = Normalisation.GROUP
    failure: Failure | None = None
    worker: str
    generate_time_s: float = 0.0
    score_time_s: float = 0.0
