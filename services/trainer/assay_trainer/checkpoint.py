"""Checkpoints to resume from: TRL's folder, with what the feed needs written into it last."""

import json
from pathlib import Path

from assay_shared.run_folder import write_json
from assay_trainer.feed import FeedState

#: Written after everything else, so a folder that has it is whole.
_STATE = "assay.json"


def folder_of(checkpoints: Path, step: int) -> Path:
    """The folder that TRL gives to the checkpoint of `step`."""
    return checkpoints / f"checkpoint-{step}"


def complete(checkpoints: Path, step: int, state: FeedState | None = None) -> None:
    """Mark the checkpoint of `step` as whole."""
    value = {"next_draw": state.next_draw, "unfinished": state.unfinished} if state else {}
    write_json(folder_of(checkpoints, step) / _STATE, value)


def newest(checkpoints: Path) -> tuple[Path, FeedState] | None:
    """The last whole checkpoint, and the feed's state in it."""
    found = sorted(checkpoints.glob(f"checkpoint-*/{_STATE}"), key=lambda f: step_of(f.parent))
    if not found:
        return None
    value = json.loads(found[-1].read_text())
    state = FeedState(value.get("next_draw", 0), tuple(value.get("unfinished", ())))
    return found[-1].parent, state


def step_of(folder: Path) -> int:
    """The steps that were done when it was written."""
    return int(folder.name.rpartition("-")[2])
