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


def complete(
    checkpoints: Path,
    step: int,
    state: FeedState | None = None,
    pass_rate: float | None = None,
) -> None:
    """Mark the checkpoint of `step` as whole. `pass_rate`: of the steps since the one before."""
    value: dict[str, object] = {"pass_rate": pass_rate}
    if state is not None:
        value |= {"next_draw": state.next_draw, "unfinished": state.unfinished}
    write_json(folder_of(checkpoints, step) / _STATE, value)


def whole(checkpoints: Path) -> list[Path]:
    """The folders of all whole checkpoints, oldest first."""
    return sorted((file.parent for file in checkpoints.glob(f"checkpoint-*/{_STATE}")), key=step_of)


def best(checkpoints: Path) -> Path | None:
    """Of those with a pass rate, the whole checkpoint with the highest; the newer of equals."""
    rated = [
        (rate, step_of(f), f) for f in whole(checkpoints) if (rate := _pass_rate(f)) is not None
    ]
    return max(rated)[2] if rated else None


def _pass_rate(folder: Path) -> float | None:
    rate = json.loads((folder / _STATE).read_text()).get("pass_rate")
    return None if rate is None else float(rate)


def newest(checkpoints: Path) -> tuple[Path, FeedState] | None:
    """The last whole checkpoint, and the feed's state in it."""
    found = whole(checkpoints)
    if not found:
        return None
    value = json.loads((found[-1] / _STATE).read_text())
    state = FeedState(value.get("next_draw", 0), tuple(value.get("unfinished", ())))
    return found[-1], state


def step_of(folder: Path) -> int:
    """The steps that were done when it was written."""
    return int(folder.name.rpartition("-")[2])
