"""Answers and their rewards."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, FiniteFloat, JsonValue, NonNegativeInt, model_validator

from assay_shared.types.execution import Status
from assay_shared.types.failure import Failure
from assay_shared.types.judgement import Cost
from assay_shared.types.task import Task
from assay_shared.types.wire import ShownText, Wire


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
