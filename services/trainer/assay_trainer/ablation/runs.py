"""The runs of an ablation: each is a process of `assay train`, with the services of a lane.

A lane is an environment: addresses of inference, queue and the rest, and the visible cards. Runs
of one lane follow each other, as they publish to the same inference. The kernel ends the processes
with this one; the next start resumes their runs.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay_shared.errors import AssayError, InvalidInput
from assay_shared.runs.run_folder import RunFolder, RunStatus
from assay_shared.runs.run_lock import owner_of
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_trainer.ablation.ablation_folder import is_finished
from assay_trainer.config import RunConfig
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop

_POLL_S = 0.3
#: For the checkpoint of a run that is asked to stop.
_STOP_GRACE_S = 180.0
#: The longest wait for a process of an earlier start to leave its run.
_OWNER_WAIT_S = 600.0
#: The exit status of a command whose input can never be used: see `assay_shared.cli`.
_UNUSABLE_INPUT = 2


class ArmFailed(AssayError):
    """A run of an ablation did not finish; the same command resumes it."""


@dataclass(frozen=True)
class RunOrder:
    """A run to finish: its folder, and its file if it has to begin."""

    folder: Path
    config: RunConfig
    #: The other runs of the same arm are not begun after one of them cannot run.
    arm: str


OnProgress = Callable[[Path, RunStatus], None]


def read_lane(file: Path) -> dict[str, str]:
    """Return the variables of a file of NAME=VALUE lines.

    Raises:
        InvalidInput: a line is not NAME=VALUE, or there is no such file.
    """
    if not file.is_file():
        raise InvalidInput(f"there is no file {file}", field="--lane")
    found = {}
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        name, sign, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not sign:
            raise InvalidInput(f"{file}:{number} is not NAME=VALUE", field="--lane")
        found[name] = value
    return found


def check_lanes(lanes: Sequence[Mapping[str, str]], inference_url: str) -> None:
    """Check that no two lanes publish to the same inference.

    Args:
        inference_url: of lanes that name none.

    Raises:
        InvalidInput: two do; names the address.
    """
    addresses = [one.get("ASSAY_INFERENCE_URL", inference_url) for one in lanes]
    named = [one.rstrip("/").lower().replace("//localhost", "//127.0.0.1") for one in addresses]
    for number, one in enumerate(named):
        if one in named[:number]:
            raise InvalidInput(
                f"two lanes have the inference service {one}: both would publish to it",
                field="--lane",
                hint="give each lane its own services, or one --lane less",
            )


def run_all(
    orders: Sequence[RunOrder],
    lanes: Sequence[Mapping[str, str]],
    stop: Stop,
    on_progress: OnProgress,
) -> dict[str, str]:
    """Finish all runs, as many at once as there are lanes.

    Returns:
        The arms that cannot run as they are, each with the reason of its first such run.

    Raises:
        Stopped: a stop was requested; the runs have stopped with a checkpoint.
        ArmFailed: a run failed for another reason; the others of its time were stopped.
    """
    waiting = [one for one in orders if not is_finished(one.folder)]
    unusable: dict[str, str] = {}
    busy: dict[int, tuple[RunOrder, subprocess.Popen[bytes]]] = {}
    try:
        while waiting or busy:
            stop.check()
            for lane, environment in enumerate(lanes):
                if lane not in busy and waiting:
                    order = waiting.pop(0)
                    busy[lane] = (order, _begin(order, environment, stop))
            time.sleep(_POLL_S)
            for lane, (order, process) in list(busy.items()):
                on_progress(order.folder, RunFolder(order.folder).read_status_or_damage())
                if process.poll() is not None:
                    del busy[lane]
                    reason = _why_unusable(order, process.returncode)
                    if reason is not None:
                        unusable.setdefault(order.arm, reason)
                        waiting = [one for one in waiting if one.arm != order.arm]
    finally:
        end([process for _, process in busy.values()], _STOP_GRACE_S)
    return unusable


def _begin(order: RunOrder, environment: Mapping[str, str], stop: Stop) -> subprocess.Popen[bytes]:
    folder = order.folder
    if not (folder / "config.json").is_file():
        _forget_half_made(folder)
        create_run(folder, order.config)
    _wait_for_owner(folder, stop)
    command = (sys.executable, "-m", "assay_shared.cli", "train", "--resume", str(folder))
    variables = {**os.environ, **environment}
    return spawn((*command, "--quiet"), log=folder / "run.log", environment=variables)


def _forget_half_made(folder: Path) -> None:
    """Remove the folder of a run that was killed before it had its file."""
    if folder.is_dir():
        for one in folder.iterdir():
            one.unlink()
        folder.rmdir()


def _wait_for_owner(folder: Path, stop: Stop) -> None:
    """Wait until no process of an earlier start holds the run."""
    deadline = time.monotonic() + _OWNER_WAIT_S
    while (owner := owner_of(folder)) is not None:
        stop.check()
        if time.monotonic() > deadline:
            raise ArmFailed(f"run {folder.name} belongs to {owner}")
        time.sleep(_POLL_S)


def _why_unusable(order: RunOrder, code: int) -> str | None:
    """Return why a run can never finish as it is; None of a finished run.

    Raises:
        ArmFailed: the run did not finish, and could if it is resumed.
    """
    if is_finished(order.folder):
        return None
    status = RunFolder(order.folder).read_status_or_damage()
    last = " ".join(last_lines(order.folder / "run.log", 1))
    reason = status.message or last or f"its process ended with code {code}"
    if code == _UNUSABLE_INPUT:
        return f"run {order.folder.name} cannot finish as it is: {reason}"
    raise ArmFailed(
        f"run {order.folder.name} did not finish: {reason}",
        hint=f"its log is {order.folder / 'run.log'}; `assay ablate --resume` continues",
    )
