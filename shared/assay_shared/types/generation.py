"""Requests to generate with the policy, and the completions with their policy versions."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, FiniteFloat, JsonValue, model_validator

from assay_shared.types.task import Message
from assay_shared.types.wire import Wire

#: Turns of one conversation.
MAX_MESSAGES = 4096


class PolicyVersion(Wire):
    """The identity of weights: an ever-growing counter, and the SHA-256 of the weight files."""

    version: int = Field(ge=0)
    digest: str


class Structure(Wire):
    """The required form of a completion while it is sampled: exactly one field is set.

    Log-probabilities are then relative to the allowed tokens only.
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
    """Sampling options. Temperature 0 is greedy. `seed` makes each of the `n` samples repeatable.

    Log-probabilities are taken from the softmax at the temperature (at 1 for temperature 0): after
    `structure`, `min_tokens`, `logit_bias` and the penalties, before `min_p`, `top_k` and `top_p`.
    """

    n: int = Field(default=1, ge=1, le=256)
    max_tokens: int = Field(default=256, ge=1)
    temperature: float = Field(default=1.0, ge=0.0, le=10.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    #: Sample among this number of most probable tokens; 0: among all.
    top_k: int = Field(default=0, ge=0)
    #: The least probability of a token to sample, as a share of the greatest probability.
    min_p: float = Field(default=0.0, ge=0.0, le=1.0)
    #: Divides positive logits of tokens in the prompt or the completion, multiplies negative ones.
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=10.0)
    #: Subtracted from the logits of tokens that the completion has.
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    #: Subtracted from a token's logit for each time that the completion has the token.
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0)
    #: Added to the logits of these token ids.
    logit_bias: dict[int, Annotated[float, Field(ge=-100.0, le=100.0)]] = Field(
        default={}, max_length=1024
    )
    stop: tuple[str, ...] = Field(default=(), max_length=8)
    #: Token ids that end a sample, as the model's own end tokens do.
    stop_token_ids: tuple[int, ...] = Field(default=(), max_length=64)
    #: Do not stop at the model's own end tokens.
    ignore_eos: bool = False
    #: Tokens to sample before an end token, a stop token or a stop string counts.
    min_tokens: int = Field(default=0, ge=0)
    seed: int | None = None
    #: For each sampled token, return the log-probabilities of this number of most probable tokens.
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
        """Return the token ids to end a sample; `end_ids` are the model's own end tokens."""
        return frozenset(self.stop_token_ids) | (frozenset() if self.ignore_eos else end_ids)

    @property
    def counts_its_tokens(self) -> bool:
        """True if the next token depends on which context tokens the policy sampled."""
        return bool(
            self.presence_penalty or self.frequency_penalty or self.structure or self.min_tokens
        )


class GenerateRequest(Wire):
    """A request with one of `token_ids`, `prompt` (tokenised as it is), `messages` (templated).

    `then` are further turns after `token_ids`; the last id of `token_ids` ends a turn of the
    assistant. Inference templates and tokenises `then` separately, so a sampled id never changes.
    """

    token_ids: tuple[int, ...] | None = None
    prompt: str | None = None
    messages: Annotated[tuple[Message, ...], Field(max_length=MAX_MESSAGES)] | None = None
    then: tuple[Message, ...] = Field(default=(), max_length=MAX_MESSAGES)
    #: Arguments of the chat template, by their names; for `messages` and `then`.
    template: dict[str, JsonValue] = Field(default={}, max_length=64)
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
        if self.template and self.messages is None and not self.then:
            raise ValueError("template goes with messages or then: nothing else is templated")
        return self


class Priority(StrEnum):
    """The purpose of a generation; inference serves purposes in this order unless told another."""

    EVALUATION = "evaluation"
    INTERACTIVE = "interactive"
    TRAINING = "training"


class FinishReason(StrEnum):
    """The reason for a completion's end: its own end (or a stop string), or the token limit."""

    STOP = "stop"
    LENGTH = "length"


class VersionSpan(Wire):
    """A span of `num_tokens` tokens, all sampled by the same version."""

    policy: PolicyVersion
    num_tokens: int = Field(gt=0)


#: Token ids and their natural-log probabilities, the most probable one first.
TopLogprobs = tuple[tuple[int, float], ...]


class Completion(Wire):
    """A sampled answer.

    `logprobs[t]` is the natural-log probability of `token_ids[t]` under the sampling
    distribution's temperature, before top-p. The ending token, if any, is the last id.

    If new weights took over during sampling, `versions` lists in order the number of tokens that
    each version sampled. Each log-probability is then its own version's, and `policy` is the newest
    version.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[FiniteFloat, ...]
    text: str
    finish_reason: FinishReason
    policy: PolicyVersion
    #: Empty if `policy` sampled every token.
    versions: tuple[VersionSpan, ...] = ()
    #: For each token, the most probable tokens with their log-probabilities, if requested.
    top_logprobs: tuple[TopLogprobs, ...] = ()

    @model_validator(mode="after")
    def _every_token_has_one_version(self) -> "Completion":
        if self.versions and sum(s.num_tokens for s in self.versions) != len(self.token_ids):
            raise ValueError("the spans of versions must add up to the tokens")
        return self

    @property
    def spans(self) -> tuple[VersionSpan, ...]:
        """The versions that sampled the tokens, in the order of the tokens."""
        if self.versions or not self.token_ids:
            return self.versions
        return (VersionSpan(policy=self.policy, num_tokens=len(self.token_ids)),)


class GenerateResponse(Wire):
    """The prompt ids sent to the model, and the samples of the model."""

    prompt_token_ids: tuple[int, ...]
    completions: tuple[Completion, ...]


class LogprobsRequest(Wire):
    """What to read, and the number of most probable tokens to return for each position.

    One of `token_ids`, `prompt` (tokenised as it is) and `messages` (templated, with the arguments
    in `template`). The text `continuation` after a prompt or messages is tokenised with them.
    """

    token_ids: tuple[int, ...] | None = Field(default=None, min_length=1)
    prompt: str | None = None
    messages: Annotated[tuple[Message, ...], Field(max_length=MAX_MESSAGES)] | None = None
    template: dict[str, JsonValue] = Field(default={}, max_length=64)
    continuation: str = ""
    top_logprobs: int = Field(default=0, ge=0, le=20)

    @model_validator(mode="after")
    def _one_text(self) -> "LogprobsRequest":
        given = [x for x in (self.token_ids, self.prompt, self.messages) if x is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of token_ids, prompt and messages")
        if self.continuation and self.token_ids is not None:
            raise ValueError("continuation goes with prompt or messages")
        if self.template and self.messages is None:
            raise ValueError("template goes with messages: nothing else is templated")
        return self


class PromptLogprobs(Wire):
    """The policy's log-probabilities of a sequence of token ids, at temperature 1.

    `logprobs[t]` is the natural-log probability of `token_ids[t]` after the ids before it: None for
    the first. `top_logprobs` is empty if not requested, and its first entry is always empty. The
    ids from `continues_at` on are those of the continuation.
    """

    token_ids: tuple[int, ...]
    continues_at: int | None = None
    logprobs: tuple[float | None, ...]
    top_logprobs: tuple[TopLogprobs, ...] = ()
    policy: PolicyVersion


class GeneratedText(Wire):
    """A line of a streamed answer: the text added to the sample at `index`."""

    index: int
    text: str
