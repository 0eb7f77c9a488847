"""The seam between the service and what computes: one protocol, one file per engine."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prometheus_client import Metric

from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.types import (
    Completion,
    FolderWeights,
    PromptLogprobs,
    ReplicaStatus,
    SamplingParams,
    WeightDigest,
    WeightReceiver,
    WeightUpdate,
)

#: Called as tokens are drawn: sample index, and the text they added.
OnText = Callable[[int, str], None]


@dataclass(frozen=True)
class Loaded:
    """What a load found.

    `probe_difference`: the largest difference of the probe's log-probabilities, in nats.
    `num_compared` of the checkpoint's `num_tensors` were compared with what the engine holds.
    """

    probe_difference: float | None
    load_time_s: float
    num_compared: int | None = None
    num_tensors: int | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Traffic:
    """Sequences being drawn, tokens drawn since the start, and how full the cache of keys is.

    `cache_use` is a share, where the engine knows.
    """

    num_running: int
    num_tokens: int
    cache_use: float | None = None


class Engine(Protocol):
    """Draws samples under one version of the weights at a time."""

    async def load(self, update: WeightUpdate) -> Loaded:
        """Serve what the update's source holds, once its mode allows.

        Raises:
            WeightsRefused: it cannot be loaded or fails the probe; the old weights stay.
            TimedOut: the running samples did not finish; the old weights stay.
            NotReady: the engine was lost, and neither these nor the old weights are served.
        """
        ...

    @property
    def vocabulary(self) -> PolicyTokenizer:
        """That of the weights that are served.

        Raises:
            NotReady: there are none.
        """
        ...

    def check_fits(self, prompt_token_ids: list[int], sampling: SamplingParams) -> None:
        """Return if the engine can draw this once it has room.

        Raises:
            InvalidInput: it never can: a prompt or a sample is too long for model or memory.
            NotReady: there are no weights.
        """
        ...

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        """`sampling.n` samples, batched with those of other requests.

        Raises:
            InvalidInput: as `check_fits`, or the engine cannot do what is asked.
            NotReady: nothing is served, or the engine was lost on the way.
            EngineFault: the engine failed on this request.
        """
        ...

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        """Return what the served weights give each of these ids, and the `num_top` likeliest.

        Raises:
            NotReady: nothing is served, or the engine was lost on the way.
        """
        ...

    def not_ready_because(self) -> str | None:
        """Why nothing can be drawn now; None where it can."""
        ...

    @property
    def holds_weights(self) -> bool:
        """Whether the loaded version is served, or will be again without being loaded anew."""
        ...

    @property
    def replicas(self) -> Mapping[str, ReplicaStatus]:
        """Those that it consists of, by name; none where it is one."""
        ...

    @property
    def max_sequences(self) -> int:
        """How many it draws together."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """How many tokens its cache holds; None where that is not known or not ours to count."""
        ...

    def traffic(self) -> Traffic: ...

    def own_metrics(self) -> Iterable[Metric]:
        """What the engine itself measures, under the names it gives."""
        ...

    @property
    def receiver(self) -> WeightReceiver | None:
        """What a direct transfer has to reach; None where only folders are taken."""
        ...

    async def digest(self) -> WeightDigest:
        """Compare all that the engine holds with what it was given.

        Raises:
            NotReady: nothing is served.
        """
        ...

    async def close(self) -> None:
        """End what runs; waiting requests fail with NotReady."""
        ...


def folder_of(update: WeightUpdate) -> Path:
    """Engines are given folders: `Policy` has made one of what came in another way."""
    assert isinstance(update.source, FolderWeights)
    return Path(update.source.path)
