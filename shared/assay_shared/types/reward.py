"""Requests to score answers, their rewards, and the steps of an environment."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, FiniteFloat, JsonValue, NonNegativeInt

from assay_shared.types.execution import Status
from assay_shared.types.failure import Failure
from assay_shared.types.judgement import Cost
from assay_shared.types.task import Task
from assay_shared.types.wire import ShownText, Wire


class RewardComponent(Wire):
    """A term of a reward: `value` as measured, in the component's range, and its weight."""

    #: The component's name in the rubric.
    name: str
    #: The value as measured, within the component's range.
    value: FiniteFloat
    #: The component's weight in the reward; 0 for a gate.
    weight: FiniteFloat
    #: For people: what was found.
    detail: ShownText = ""


class Scored(Wire):
    """A measured reward: the rubric's combination of its components."""

    #: Marks a measured reward.
    status: Literal["scored"] = "scored"
    #: The reward: the rubric's combination of its components.
    value: FiniteFloat
    #: The outcome of the answer, as a sandbox status; accepted means right.
    outcome: Status
    #: The measured components, gates first.
    components: tuple[RewardComponent, ...]
    #: Numbers about the answer that do not count in a reward, by name: rates and costs.
    measures: dict[str, FiniteFloat] = {}
    #: For people: what the measurement rests on, such as the trace of a workflow.
    #: Under `tests` are cases, under `judge` a verdict; each is cut to some kilobytes.
    evidence: dict[str, JsonValue] = {}


class Unscored(Wire):
    """A missing reward: no measurement was possible. Never to be read as zero."""

    #: Marks a missing reward; never to be read as 0.
    status: Literal["failed"] = "failed"
    #: Why there is no reward.
    failure: Failure
    #: Numbers about the answer that do not count in a reward, by name: rates and costs.
    measures: dict[str, FiniteFloat] = {}
    #: For people: what the measurement rests on, such as the trace of a workflow.
    evidence: dict[str, JsonValue] = {}


Reward = Annotated[Scored | Unscored, Field(discriminator="status")]


#: The text of an answer, or the turns of an episode, oldest first.
AnswerText = str | Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]


class Answer(Wire):
    """An answer to score, with what is known of its sampling."""

    #: The text, or the turns of an episode, oldest first.
    text: AnswerText
    #: Number of sampled tokens, for rubrics that need lengths.
    num_tokens: NonNegativeInt | None = None
    #: Whether the answer was cut off at its token limit, if known.
    truncated: bool | None = None

    @property
    def turns(self) -> tuple[str, ...]:
        """All turns of the policy, oldest first."""
        return (self.text,) if isinstance(self.text, str) else self.text


def _with_text(given: object) -> object:
    return {"text": given} if isinstance(given, str | tuple | list) else given


#: An answer; a mere text or list of turns stands for an object with nothing but `text`.
GivenAnswer = Annotated[
    Answer, BeforeValidator(_with_text, json_schema_input_type=Answer | AnswerText)
]


class ScoreRequest(Wire):
    """A request to score the answers to a task. `rubric` defaults to the task's own.

    The same `key` gets the same rewards, if none failed the first time.
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

    #: The task, with the reference or tests for its answers.
    task: Task
    #: The answers to score; each gets one reward, in order.
    answers: tuple[GivenAnswer, ...] = Field(min_length=1, max_length=256)
    #: The rubric by name; the task's own if not set.
    rubric: str | None = None
    #: The same key gets the same rewards, measured once.
    key: str | None = Field(default=None, min_length=1, max_length=512)
    #: The run to charge costs to, as well as the caller.
    run: str = ""


class Normalisation(StrEnum):
    """The way from rewards to advantages; the trainer's choice.

    `group`: minus the group's mean, over its deviation. `batch`: over the deviation of the batch's
    rewards. `none`: minus the mean alone. `rloo`: minus the mean of the group's other rewards.
    `reinforce_pp`: minus the batch's mean, over its deviation; `reinforce_pp_baseline`: the same
    after the group's mean was taken away. `components`: each component within its group, then their
    weighted sum within the batch (GDPO, arXiv 2601.05242).
    """

    GROUP = "group"
    BATCH = "batch"
    NONE = "none"
    RLOO = "rloo"
    REINFORCE_PP = "reinforce_pp"
    REINFORCE_PP_BASELINE = "reinforce_pp_baseline"
    COMPONENTS = "components"


class ComponentReport(Wire):
    """Time and cost of measuring a component for a whole group.

    A cost shared by several components is charged to the first of them.
    """

    #: The component's name in the rubric.
    name: str
    #: Seconds from its first to its last measurement.
    time_s: float
    #: The cost of its measurements.
    cost: Cost = Cost()


class ScoreResponse(Wire):
    """Rewards of the answers, in order; `scorer` names the rubric and its hash."""

    #: One for each answer, in order.
    rewards: tuple[Reward, ...]
    #: The rubric's name and the hash of all that it computes.
    scorer: str
    #: Time and cost of each component.
    components: tuple[ComponentReport, ...] = ()


class ScoreBatch(Wire):
    """A request to score several groups at once."""

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
    """A group of a batch without any score."""

    #: Why the group could not be scored at all.
    failure: Failure


class ScoreBatchResponse(Wire):
    """Responses to the requests of a batch, in order."""

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

    #: The rubric's name, for requests.
    name: str
    #: Its name and the hash of all that it computes.
    scorer: str
    #: One line for people.
    description: str
    #: How a trainer should turn its rewards into advantages, if its author says so.
    recommended_normalise: Normalisation | None = None
    #: The lowest reward that it can give.
    lowest: float = 0.0
    #: The highest reward that it can give.
    highest: float = 1.0
    #: How far each component alone moves the reward, as a share.
    shares: dict[str, float]


class EnvironmentInfo(Wire):
    """An environment for tasks of several turns."""

    #: The environment's name, for tasks.
    name: str
    #: One line for people.
    description: str


class StepRequest(Wire):
    """All turns of the policy in an episode so far; no turns request the first observation."""

    #: The episode's task.
    task: Task
    #: All turns of the policy so far, oldest first.
    turns: tuple[str, ...] = Field(default=(), max_length=64)


class StepResponse(Wire):
    """The next observation for the policy. `parts` are the last turn's reward parts by name."""

    #: The text that the policy reads next.
    observation: str
    #: Whether the episode is over.
    done: bool
    #: The reward parts of the last turn, by name.
    parts: dict[str, float] = {}
    #: For people and logs.
    facts: dict[str, JsonValue] = {}
