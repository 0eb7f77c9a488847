"""What a checkpoint is, and where its parts lie."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class SourceKind(StrEnum):
    """The form of a checkpoint."""

    FOLDER = "Hugging Face folder"
    ADAPTER = "LoRA adapter"
    SHARDS = "FSDP shards"
    STATE = "GRPO checkpoint"


@dataclass(frozen=True)
class HandoffSource:
    """A checkpoint. `path` has its weights, `config` its config.json, `tokenizer` the tokenizer.

    `base` is the model that an adapter, or a GRPO checkpoint, is put into. `run` is the folder of
    the run that made the checkpoint, if it lies in one.
    """

    kind: SourceKind
    path: Path
    config: Path
    tokenizer: Path
    base: Path | None = None
    run: Path | None = None
    step: int | None = None
    #: The checkpoint's own tokenizer, where `tokenizer` is another folder's.
    replaced_tokenizer: Path | None = None

    @property
    def own_tokenizer(self) -> Path:
        return self.replaced_tokenizer or self.tokenizer


@dataclass(frozen=True)
class PreparedSource:
    """A checkpoint as a folder of safetensors with its config.json; `digest` is the source's."""

    folder: Path
    digest: str
