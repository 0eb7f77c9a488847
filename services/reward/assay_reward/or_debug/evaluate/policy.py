"""Who plays: the seam behind which built-in baselines and remote policies look the same.

A player sees what a model would see, the prompt and then observations, and nothing else.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from assay_shared.clients import InferenceClient
from assay_shared.errors import InvalidInput
from assay_shared.types import GenerateRequest, Message, SamplingParams, Task

#: A baseline: yields replies, is sent observations, and returns when it gives up.
Script = Generator[str, str, None]


@dataclass(frozen=True)
class PolicyReply:
    """What was said, and how many tokens it had; 0 for a baseline."""

    text: str
    num_tokens: int = 0


class Player(Protocol):
    """Plays one episode."""

    async def reply(self, observation: str) -> PolicyReply | None:
        """The reply to an observation, the prompt at first; None to stop there."""
        ...


class EpisodePolicy(Protocol):
    """Plays any number of episodes, side by side."""

    @property
    def name(self) -> str: ...

    def player(self, task: Task, sample: int) -> Player: ...


@dataclass(frozen=True)
class Scripted:
    """A baseline under its name; the same seed plays the same episodes."""

    name: str
    script: Callable[[str, Random], Script]
    seed: int = 0

    def player(self, task: Task, sample: int) -> "ScriptedPlayer":
        return ScriptedPlayer(self.script, Random(f"{self.seed} {task.id} {sample}"))


class ScriptedPlayer:
    """One run of a script."""

    def __init__(self, script: Callable[[str, Random], Script], rng: Random) -> None:
        self._script = script
        self._rng = rng
        self._running: Script | None = None

    async def reply(self, observation: str) -> PolicyReply | None:
        try:
            if self._running is None:
                self._running = self._script(observation, self._rng)
                return PolicyReply(next(self._running))
            return PolicyReply(self._running.send(observation))
        except StopIteration:
            return None


@dataclass(frozen=True)
class RemotePolicy:
    """A policy that an inference service serves."""

    name: str
    client: InferenceClient
    sampling: SamplingParams

    def player(self, task: Task, sample: int) -> "RemotePlayer":
        return RemotePlayer(self.client, self.sampling, sample)


class RemotePlayer:
    """One conversation with a served policy."""

    def __init__(self, client: InferenceClient, sampling: SamplingParams, sample: int) -> None:
        self._client = client
        self._sampling = sampling
        self._sample = sample
        self._messages: tuple[Message, ...] = ()

    async def reply(self, observation: str) -> PolicyReply | None:
        """The sampled reply; None where the conversation does not fit the policy's context."""
        asked = (*self._messages, Message(role="user", content=observation))
        request = GenerateRequest(messages=asked, sampling=self._seeded(len(asked)))
        try:
            response = await self._client.generate(request)
        except InvalidInput as error:
            if error.field != "sampling.max_tokens" or not self._messages:
                raise
            return None
        completion = response.completions[0]
        self._messages = (*asked, Message(role="assistant", content=completion.text))
        return PolicyReply(completion.text, len(completion.token_ids))

    def _seeded(self, num_messages: int) -> SamplingParams:
        if self._sampling.seed is None:
            return self._sampling
        seed = self._sampling.seed + 1_000_003 * self._sample + num_messages
        return self._sampling.model_copy(update={"seed": seed})
