"""What is asked of a hand-off."""

from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import Conflict


@dataclass(frozen=True)
class HandoffOrder:
    """The options of `assay handoff`."""

    checkpoint: Path
    output: Path
    base: Path | None = None
    tokenizer: Path | None = None
    #: torch's name of a type; None keeps the checkpoint's own.
    dtype: str | None = None
    prompts: Path | None = None
    max_tokens: int = 64
    #: The share of the answers that must end by an end token.
    min_stopping: float = 0.5
    #: Engines may differ between tokens this close, in nats; None: see `checks/engines.py`.
    tie_nats: float | None = None
    vllm: Path | None = None
    device: str | None = None
    #: Time of each part: gathering, and each engine.
    limit_s: float = 1800.0


def check_output(output: Path) -> None:
    """Check that nothing is at the place of the output.

    Raises:
        Conflict: it exists.
    """
    if output.exists() or output.is_symlink():
        raise Conflict(f"{output} exists", field="--output", hint="name a new folder")
