"""What the policy generates: requests, completions and their versions."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, FiniteFloat, JsonValue, model_validator

from assay_shared.types.task import Message
from assay_shared.types.wire import Wire

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

    @model_validator(mode="after")
    def _form_decides_the_end(self) -> "SamplingParams":
        for name in ("min_tokens", "ignore_eos"):
            if self.structure is not None and getattr(self, name):
                raise ValueError(f"{name} does not go with structure: the form says where it ends")
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
    def sampled_mask(self) -> tuple[bool, ...]:
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
