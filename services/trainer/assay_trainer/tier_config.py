"""Tiers of sets that a run measures, and the metric that chooses its best checkpoint."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from assay_shared.runs.run_folder import RUN_NAME
from assay_shared.settings.run_file import Config
from assay_trainer.sources import Source


class TierConfig(Config):
    """Sets that are measured at checkpoints of SFT, DPO and GRPO, or once at the run's end."""

    name: str = Field(pattern=rf"^{RUN_NAME}$")
    #: By their names; `limit` random tasks of each.
    sets: dict[Annotated[str, Field(pattern=rf"^{RUN_NAME}$")], Source] = Field(min_length=1)
    #: Every checkpoint, the checkpoints of these steps, or the end. Rows for tests only at the end.
    at: Literal["checkpoints", "end"] | Annotated[tuple[int, ...], Field(min_length=1)]
    #: The fields of `assay evaluate --protocol-file`; greedy answers without them.
    protocol: dict[str, JsonValue] = Field(default={})
    limit: int | None = Field(default=None, gt=0)

    def is_due(self, step: int) -> bool:
        """Return True if the checkpoint of `step` is measured."""
        return self.at == "checkpoints" or (self.at != "end" and step in self.at)


class BestCheckpointConfig(Config):
    """The metric that says which checkpoint is a stage's model: of a tier's set, the highest."""

    set: str
    metric: Literal[
        "accepted_at_1", "execution_success", "pass_ratio", "majority", "solved_in_budget"
    ] = "accepted_at_1"
