"""Groups of answers to a task, as the queue carries them."""

from collections.abc import Callable

from pydantic import Field, FiniteFloat, model_validator

from assay_shared.types.failure import Failure
from assay_shared.types.generation import (
    Completion,
    FinishReason,
    PolicyVersion,
    Priority,
    SamplingParams,
)
from assay_shared.types.reward import AnswerText, ComponentReport, Reward
from assay_shared.types.task import Task
from assay_shared.types.wire import Wire


class Turn(Wire):
    """A reply of the policy within an episode: it has the ids from `start` up to `end`."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text: str
    #: The environment's answer; empty after the last turn.
    observation: str = ""


class RolloutSpan(Wire):
    """A span of `num_tokens` tokens of one origin."""

    #: The version that sampled them all; None for tokens of an observation.
    policy: PolicyVersion | None
    num_tokens: int = Field(gt=0)


class Rollout(Wire):
    """Everything after the first prompt: a sampled answer, or all turns of an episode.

    `logprobs` are as in `Completion`, and 0 for tokens of an observation. For an episode, `text`
    and `finish_reason` are the last turn's.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[FiniteFloat, ...]
    text: str
    finish_reason: FinishReason
    #: The origins of the tokens, in their order.
    spans: tuple[RolloutSpan, ...]
    #: Empty outside of episodes.
    turns: tuple[Turn, ...] = ()

    @model_validator(mode="after")
    def _every_token_has_one_origin(self) -> "Rollout":
        if sum(span.num_tokens for span in self.spans) != len(self.token_ids):
            raise ValueError("the spans must add up to the tokens")
        return self

    @classmethod
    def of(cls, completion: Completion) -> "Rollout":
        """Return the rollout of a single answer."""
        return cls(
            token_ids=completion.token_ids,
            logprobs=completion.logprobs,
            text=completion.text,
            finish_reason=completion.finish_reason,
            spans=sampled_spans(completion),
        )

    @property
    def policies(self) -> frozenset[PolicyVersion]:
        """All versions that sampled any of the tokens."""
        return frozenset(span.policy for span in self.spans if span.policy is not None)

    @property
    def sampled_mask(self) -> tuple[bool, ...]:
        """For each id, True if the policy sampled it: only sampled ids may enter a loss."""
        return self.mask(lambda policy: policy is not None)

    @property
    def num_sampled(self) -> int:
        """The number of tokens that the policy sampled."""
        return sum(span.num_tokens for span in self.spans if span.policy is not None)

    def mask(self, holds: Callable[[PolicyVersion | None], bool]) -> tuple[bool, ...]:
        """Return `holds` of the version that sampled each id; for an observation, of None."""
        return tuple(
            held for span in self.spans for held in (holds(span.policy),) * span.num_tokens
        )

    @property
    def answer(self) -> AnswerText:
        """The text, or the texts of all turns: what is scored."""
        return tuple(turn.text for turn in self.turns) if self.turns else self.text


def sampled_spans(completion: Completion) -> tuple[RolloutSpan, ...]:
    """Return the spans of a completion, all of whose tokens were sampled."""
    return tuple(
        RolloutSpan(policy=span.policy, num_tokens=span.num_tokens) for span in completion.spans
    )


class Group(Wire):
    """All rollouts of a task."""

    key: str
    task: Task
    prompt_token_ids: tuple[int, ...] = ()
    rollouts: tuple[Rollout, ...]


class GroupRequest(Wire):
    """A unit of rollout work. `key` identifies it: the same key is never counted twice."""

    key: str
    run: str
    task: Task
    sampling: SamplingParams
    priority: Priority = Priority.TRAINING


class ScoredGroup(Wire):
    """A group with its rewards, or with its failure; a rollout worker stores it once per key."""

    group: Group
    rewards: tuple[Reward, ...] = ()
    scorer: str = ""
    failure: Failure | None = None
    worker: str
    generate_time_s: float = 0.0
    score_time_s: float = 0.0
    #: Time and cost of each reward component, for the whole group.
    costs: tuple[ComponentReport, ...] = ()
