"""A stored sample, and what is stored of its task."""

from typing import Annotated

from pydantic import ConfigDict, Field, NonNegativeFloat

from assay_shared.types import Failure, Message, PromptFormat, Role, Status
from assay_shared.types.wire import Wire

#: Tokens of an answer or an episode, and places of samples: more is a mistake.
BoundedCount = Annotated[int, Field(ge=0, lt=2**31)]
Share = Annotated[float, Field(ge=0, le=1)]


class EvaluatedTask(Wire):
    """A line of tasks.jsonl: what a reader of the samples needs of a task.

    `tags` are the strata: domain, family, difficulty and the like.
    """

    id: str
    dataset: str
    role: Role
    prompt: str
    tags: dict[str, str] = {}
    reference: str | None = None
    #: What an answer needs to become a demonstration; empty of a folder of an earlier version.
    rubric: str = ""
    #: The messages before the prompt; null of a folder that an earlier version wrote.
    history: tuple[Message, ...] | None = None
    prompt_format: PromptFormat = PromptFormat.CHAT
    #: Played in an environment, reply after reply.
    is_episode: bool = False


class RoundRecord(Wire):
    """A program of a sample, with its verdict."""

    model_config = ConfigDict(allow_inf_nan=False)

    outcome: Status
    #: The share of its tests that passed.
    pass_ratio: Share | None
    #: Sampled tokens.
    num_tokens: BoundedCount
    #: The answer; empty for a round of `turns`, which has the text.
    text: str = ""


class SampleRecord(Wire):
    """A line of samples.jsonl: an answer with its verdict, or with the failure in its place.

    A sample with a `failure` has neither outcome nor reward and enters no estimate.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    task_id: str
    #: From 0, within the task.
    index: BoundedCount
    #: The answer; of an episode, the last reply.
    text: str
    #: Of an episode: each reply with its observation.
    turns: tuple[tuple[str, str], ...] = ()
    #: Sampled tokens; null where nobody knows their number.
    num_tokens: BoundedCount | None
    #: The answer was cut off at its token limit.
    truncated: bool
    outcome: Status | None
    reward: float | None = None
    #: Each measured component of the reward by its name, and what was found.
    components: dict[str, float] = {}
    details: dict[str, str] = {}
    #: Numbers that verifiers noted of the answer, by name; also of an answer without a score.
    measures: dict[str, float] = {}
    failure: Failure | None = None
    #: Of code: the share of its tests that passed.
    pass_ratio: Share | None = None
    #: Of `likelihood`: the log-probability of each option, by its letter.
    option_logprobs: dict[str, float] = {}
    #: The number of tokens of each option.
    option_tokens: dict[str, BoundedCount] = {}
    #: Of `majority`: the final answer; equal answers of a task have the same text here.
    vote: str | None = None
    #: Of `repair`: the verdict on each program of `turns`; the last one is the sample's.
    rounds: tuple[RoundRecord, ...] = ()
    #: Of `repair`: independent answers for as many tokens as the rounds after the first took.
    control: tuple[RoundRecord, ...] = ()
    #: Seconds of the whole group that the sample was generated and scored with.
    generate_s: NonNegativeFloat = 0.0
    score_s: NonNegativeFloat = 0.0
    #: The sample's share of its group's costs.
    sandbox_cpu_s: NonNegativeFloat = 0.0
    #: Seconds of the components that asked a judge's models.
    judge_s: NonNegativeFloat = 0.0
    judge_tokens: NonNegativeFloat = 0.0
    money: NonNegativeFloat = 0.0
