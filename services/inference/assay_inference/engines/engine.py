"""The protocols of an engine, and the messages they exchange with the service."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prometheus_client import Metric
from pydantic import Field

from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_inference.weights.checkpoint import WorkerPlace
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    Completion,
    DirectWeights,
    FolderWeights,
    PromptLogprobs,
    ReplicaStatus,
    SamplingParams,
    WeightDigest,
    WeightReceiver,
    WeightUpdate,
)

#: Called with a sample's index and the text added to it.
OnText = Callable[[int, str], None]


@dataclass(frozen=True)
class Loaded:
    """The result of a load.

    `probe_difference` is the largest difference of the probe's log-probabilities, in nats.
    `num_compared` of the checkpoint's `num_tensors` tensors were compared with the engine's own.
    """

    probe_difference: float | None
    load_time_s: float
    num_compared: int | None = None
    num_tensors: int | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Traffic:
    """Sequences in flight, tokens sampled since the start, and the used share of the KV cache.

    `cache_use` is None if the engine does not report it.
    """

    num_running: int
    num_tokens: int
    cache_use: float | None = None


class ResolvedUpdate(WeightUpdate):
    """A weight update from a source readable by an engine: a folder, or a trainer's memory."""

    source: FolderWeights | DirectWeights
    #: For one of several engines of a direct transfer. It never travels.
    place: WorkerPlace | None = Field(default=None, exclude=True)

    @classmethod
    def of(cls, update: WeightUpdate, source: FolderWeights | DirectWeights) -> "ResolvedUpdate":
        """Return `update` with a source readable by an engine."""
        return cls(source=source, policy=update.policy, probe=update.probe, mode=update.mode)


class Sampler(Protocol):
    """Samples completions and reads log-probabilities under the served weights."""

    @property
    def vocabulary(self) -> PolicyTokenizer:
        """Tokenizer of the served weights.

        Raises:
            NotReady: no weights are served.
        """
        ...

    @property
    def max_sequences(self) -> int:
        """Number of sequences the engine samples together."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """Number of tokens the cache holds; None if the service need not count them."""
        ...

    def check_fits(self, prompt_token_ids: list[int], sampling: SamplingParams) -> None:
        """Return if the engine can sample this request once it has room.

        Raises:
            InvalidInput: the prompt or a sample is too long for the model or the memory.
            NotReady: no weights are served.
        """
        ...

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        """Return `sampling.n` samples, batched with the samples of other requests.

        Raises:
            InvalidInput: as `check_fits`, or the engine lacks a requested option.
            NotReady: no weights are served, or the engine was lost on the way.
            EngineFault: the engine failed on this request.
        """
        ...

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        """Return the log-probability of each id, and of the `num_top` likeliest ids in its place.

        Raises:
            NotReady: no weights are served, or the engine was lost on the way.
        """
        ...


class WeightHolder(Protocol):
    """Holds one version of the weights, and replaces it."""

    async def load(self, update: ResolvedUpdate) -> Loaded:
        """Serve the weights of the update's source, once its mode allows.

        Raises:
            InvalidInput: the engine does not take this source or this mode.
            WeightsRefused: they cannot be loaded or fail the probe; the old weights stay.
            TimedOut: the running samples did not finish; the old weights stay.
            NotReady: the engine was lost, and serves neither these nor the old weights.
        """
        ...

    @property
    def holds_weights(self) -> bool:
        """True if the loaded version is served, or will be again without another load."""
        ...

    @property
    def receiver(self) -> WeightReceiver | None:
        """Devices that a direct transfer must reach; None if the engine takes only folders."""
        ...

    @property
    def replicas(self) -> Mapping[str, ReplicaStatus]:
        """Replicas behind this engine, by name; empty for a single engine."""
        ...

    async def digest(self) -> WeightDigest:
        """Compare all weights the engine holds with the checkpoint or the manifest.

        Raises:
            NotReady: no weights are served.
        """
        ...


class Monitored(Protocol):
    """Tells how an engine is doing."""

    def not_ready_because(self) -> str | None:
        """Return the reason why the engine cannot sample now; None if it can."""
        ...

    def traffic(self) -> Traffic:
        """Return the sequences in flight, the tokens sampled so far, and the cache's use."""
        ...

    def own_metrics(self) -> Iterable[Metric]:
        """Return the engine's own metrics, under its own names."""
        ...


class Engine(Sampler, WeightHolder, Monitored, Protocol):
    """Samples completions under one version of the weights at a time."""

    async def close(self) -> None:
        """End everything that runs; waiting requests fail with NotReady."""
        ...


def folder_of(update: ResolvedUpdate) -> Path:
    """Return the checkpoint folder of an update.

    Raises:
        InvalidInput: the weights are to come from a trainer's memory.
    """
    if isinstance(update.source, DirectWeights):
        raise InvalidInput("this engine takes weights only from a folder", field="source.kind")
    return Path(update.source.path)
