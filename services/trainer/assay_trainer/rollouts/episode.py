"""An episode: the policy and an environment take turns. No torch here.

Token ids are never tokenised again: a reply keeps its sampled ids, and inference appends the
environment's observation and returns the ids sent to the model.
"""

from assay_shared.errors import InfrastructureError, InvalidInput, to_failure
from assay_shared.interfaces import Environment, Generator
from assay_shared.telemetry.context import log_fields
from assay_shared.telemetry.tracing import span
from assay_shared.types import (
    Completion,
    Failure,
    GenerateRequest,
    Message,
    Rollout,
    RolloutSpan,
    SamplingParams,
    StepRequest,
    Task,
    Turn,
    sampled_spans,
)

#: Seeds of one sample's turns, and of the samples of a turn, stay apart.
_SEED_OF_TURN, _SEED_OF_SAMPLE = 15_485_863, 32_452_843


class Episode:
    """Plays on from the first reply to a task's prompt. `play` returns the episode itself."""

    def __init__(
        self, task: Task, prompt_token_ids: tuple[int, ...], first: Completion, index: int
    ) -> None:
        assert task.environment is not None
        self._task = task
        self._max_turns = task.environment.max_turns
        self._prompt = prompt_token_ids
        self._index = index
        self._token_ids: list[int] = []
        self._logprobs: list[float] = []
        self._spans: list[RolloutSpan] = []
        self._turns: list[Turn] = []
        self._last = first
        #: Why it broke off; such an episode has no reward.
        self.failure: Failure | None = None

    async def play(
        self, sampling: SamplingParams, generator: Generator, environment: Environment
    ) -> "Episode":
        """Play until the environment ends the episode, all turns are used, or the context is full.

        Raises:
            CallerError: the task can never be played; other failures are in `failure`.
        """
        self._add_reply(self._last)
        with log_fields(sample=self._index), span("rollout.episode") as episode:
            try:
                await self._take_turns(sampling, generator, environment)
            except InfrastructureError as error:
                episode.fail(str(error))
                self.failure = to_failure(error, "reward")
            episode.note(turns=len(self._turns))
        return self

    async def _take_turns(
        self, sampling: SamplingParams, generator: Generator, environment: Environment
    ) -> None:
        while len(self._turns) < self._max_turns:
            observation = await self._observe(environment)
            if observation is None or not await self._reply(observation, sampling, generator):
                return

    async def _observe(self, environment: Environment) -> str | None:
        """Return the environment's observation of the last reply; None if it ended the episode."""
        said = tuple(turn.text for turn in self._turns)
        step = await environment.step(StepRequest(task=self._task, turns=said))
        self._turns[-1] = self._turns[-1].model_copy(update={"observation": step.observation})
        return None if step.done else step.observation

    async def _reply(
        self, observation: str, sampling: SamplingParams, generator: Generator
    ) -> bool:
        """Sample a reply; return False if it does not fit the context."""
        sent = (*self._prompt, *self._token_ids)
        request = GenerateRequest(
            token_ids=sent,
            then=(Message(role="user", content=observation),),
            sampling=sampling.model_copy(update={"n": 1, "seed": self._seed(sampling)}),
        )
        try:
            response = await generator.generate(request)
        except InvalidInput as error:
            if error.field != "sampling.max_tokens":
                raise
            return False
        further = response.prompt_token_ids[len(sent) :]
        self._token_ids += further
        self._logprobs += [0.0] * len(further)
        if further:
            self._spans.append(RolloutSpan(policy=None, num_tokens=len(further)))
        self._add_reply(response.completions[0])
        return True

    def _seed(self, sampling: SamplingParams) -> int | None:
        if sampling.seed is None:
            return None
        return (
            sampling.seed + _SEED_OF_TURN * len(self._turns) + _SEED_OF_SAMPLE * (self._index + 1)
        )

    def _add_reply(self, completion: Completion) -> None:
        start = len(self._token_ids)
        self._token_ids += completion.token_ids
        self._logprobs += completion.logprobs
        self._spans += sampled_spans(completion)
        self._last = completion
        self._turns.append(
            Turn(
                start=start,
                end=len(self._token_ids),
                text=completion.text,
            )
        )

    @property
    def rollout(self) -> Rollout:
        """Return everything after the prompt."""
        return Rollout(
            token_ids=tuple(self._token_ids),
            logprobs=tuple(self._logprobs),
            text=self._last.text,
            finish_reason=self._last.finish_reason,
            spans=tuple(self._spans),
            turns=tuple(self._turns),
        )
