"""Policies to evaluate: a common interface for built-in baselines and remote policies.

A player sees only a model's input: the prompt, then observations.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from assay_shared.clients import InferenceClient
from assay_shared.errors import InvalidInput
from assay_shared.types import GenerateRequest, Message, SamplingParams, Task

#: A baseline: it yields replies, receives observations, and returns to give up.
Script = Generator[str, str, None]


@dataclass(frozen=True)
class PolicyReply:
    """A reply's text and its number of tokens; 0 for a baseline."""

    text: str
    num_tokens: int = 0


class Player(Protocol):
    """A player of a single episode."""

    async def reply(self, observation: str) -> PolicyReply | None:
        """Return the reply to an observation (at first, the prompt), or None to stop."""
        ...


class EpisodePolicy(Protocol):
    """A policy for any number of concurrent episodes."""

    @property
    def name(self) -> str: ...

    def player(self, task: Task, sample: int) -> Player: ...


@dataclass(frozen=True)
class Scripted:
    """A named baseline; the same seed plays the same episodes."""

    name: str
    script: Callable[[str, Random], Script]
    seed: int = 0

    def player(self, task: Task, sample: int) -> "ScriptedPlayer":
        return ScriptedPlayer(self.script, Random(f"{self.seed} {task.id} {sample}"))


class ScriptedPlayer:
    """A run of a script."""

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
    """A policy served by an inference service."""

    name: str
    client: InferenceClient
    sampling: SamplingParams

    def player(self, task: Task, sample: int) -> "RemotePlayer":
        return RemotePlayer(self.client, self.sampling, sample)


class RemotePlayer:
    """A conversation with a served policy."""

    def __init__(self, client: InferenceClient, sampling: SamplingParams, sample: int) -> None:
        self._client = client
        self._sampling = sampling
        self._sample = sample
        self._messages: tuple[Message, ...] = ()

    async def reply(self, observation: str) -> PolicyReply | None:
        """Return the sampled reply, or None if the conversation exceeds the policy's context."""
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
