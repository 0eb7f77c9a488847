"""The seam between the service and what computes: one protocol, one file per engine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from assay_inference.settings import InferenceSettings
from assay_shared.types import Completion, LogprobProbe, Message, PolicyVersion, SamplingParams

#: Called as tokens are drawn: sample index, and the text they added.
OnText = Callable[[int, str], None]


@dataclass(frozen=True)
class Loaded:
    """What a load found: the largest difference of the probe's log-probabilities, in nats."""

    probe_difference: float | None
    load_time_s: float


class Engine(Protocol):
    """Draws samples under one version of the weights at a time."""

    async def load(self, folder: Path, policy: PolicyVersion, probe: LogprobProbe | None) -> Loaded:
        """Serve `folder` once all running samples are finished.

        Raises:
            WeightsRefused: it cannot be loaded or fails the probe; the old weights stay.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` as it stands: nothing is added."""
        ...

    def encode_chat(self, messages: tuple[Message, ...]) -> list[int]:
        """Token ids of a conversation through the chat template, ready for the answer."""
        ...

    def encode_further(self, token_ids: list[int], messages: tuple[Message, ...]) -> list[int]:
        """`token_ids`, which end a reply of the policy, and further turns, ready for the answer."""
        ...

    def decode(self, token_ids: list[int]) -> str:
        """The text of `token_ids`, special tokens left out."""
        ...

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        """`sampling.n` samples, batched with those of other requests.

        Raises:
            InvalidInput: the prompt and `max_tokens` do not fit the model's context.
            Overloaded: too many sequences wait already.
        """
        ...

    async def close(self) -> None:
        """End what runs; waiting requests fail with NotReady."""
        ...


def make_engine(settings: InferenceSettings) -> Engine:
    """The engine that the settings name."""
    from assay_inference.engine_transformers import TransformersEngine

    return TransformersEngine(settings)
