"""An ablation from its start to its report. What is done already is not done again.

start -> first arm, all seeds -> controls -> for each arm: decomposition, all seeds -> report

With more lanes than seeds, all further arms are trained together, before their decompositions. An
arm that cannot run as it is has failed; the other arms run.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from assay_shared.errors import InternalFault, InvalidInput, NotFound
from assay_shared.runs.run_folder import Event, RunStatus
from assay_shared.runtime.processes import end, last_lines, spawn
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.ablation.ablation_config import START
from assay_trainer.ablation.ablation_folder import AblationFolder, is_finished
from assay_trainer.ablation.arms import AblationArm, AblationPlan, arm_config, start_config
from assay_trainer.ablation.decomposition.findings import Decomposition, PlantedChanges
from assay_trainer.ablation.runs import RunOrder, run_all
from assay_trainer.stop import Stop

_GRACE_S = 10.0
_POLL_S = 0.3
OnEvent = Callable[[Event], None]


@dataclass
class AblationRun:
    """A running ablation: its folder, its plan, services, and listeners."""

    folder: AblationFolder
    plan: AblationPlan
    settings: ServiceSettings
    lanes: Sequence[Mapping[str, str]]
    stop: Stop
    on_event: OnEvent = lambda _: None
    #: Gets a run's folder with its status, often.
    on_progress: Callable[[Path, RunStatus], None] = lambda folder, status: None
    #: Arms that cannot run as they are, with the reason.
    failed: dict[str, str] = field(default_factory=dict)

    def record(self, kind: str, **data: JsonValue) -> None:
        self.on_event(self.folder.record.record(kind, **data))

    def status(self, stage: str, step: int = 0, num_steps: int = 0) -> None:
        self.folder.record.write_status(
            RunStatus(state="running", stage=stage, step=step, num_steps=num_steps)
        )


def run_ablation(run: AblationRun) -> list[AblationArm]:
    """Finish all runs and decompositions; return the arms to compare, in order.

    Raises:
        Stopped: a stop was requested.
        ArmFailed: a run did not finish, and could if it is resumed.
        InvalidInput: the start or the first arm cannot run: there is nothing to compare with.
        InternalFault: a decomposition did not end.
    """
    _start(run)
    first, *others = run.plan.arms
    _train(run, first)
    _refuse_failed(run, first.name, f"arms.{first.name}")
    controls = _controls(run, first)
    run.record("controls", work=controls.work, found=sum(one.is_found for one in controls.controls))
    if len(run.lanes) > len(run.plan.config.seeds):
        _train(run, *others)  # else lanes stand idle
    trained = [first]
    for arm in others:
        if arm.name in run.failed:
            continue
        found = _decomposition(run, arm, previous_trained(run.plan, arm, trained))
        run.record("decomposed", arm=arm.name, verdict=found.verdict, reason=found.reason)
        if found.verdict.is_compared:
            _train(run, arm)
            if arm.name not in run.failed:
                trained.append(arm)
    return trained


def previous_trained(
    plan: AblationPlan, arm: AblationArm, trained: Sequence[AblationArm]
) -> AblationArm:
    """Return the arm that `arm` is compared with: the nearest one before it that was trained."""
    names = {one.name for one in trained}
    before = arm
    while before.previous is not None:
        before = plan.arm(before.previous)
        if before.name in names:
            return before
    return plan.arms[0]


def _start(run: AblationRun) -> None:
    order = RunOrder(run.folder.start, start_config(run.plan), START)
    _finish(run, START, [order])
    _refuse_failed(run, START, None)


def _refuse_failed(run: AblationRun, name: str, at: str | None) -> None:
    """End an ablation whose start or first arm has failed.

    Raises:
        InvalidInput: it has; says why.
    """
    if name in run.failed:
        raise InvalidInput(
            f"without this run, no arm can be compared: {run.failed[name]}",
            field=at,
            hint="begin an ablation of a file without this fault; if the fault is outside of the "
            f"file, repair it and run assay ablate --resume {run.folder.path}",
        )


def start_weights(folder: AblationFolder) -> Path:
    """Return the folder of the start's last weights, which all arms begin with.

    Raises:
        NotFound: the start has no weights.
    """
    models = folder.start / "models"
    for name in ("dpo", "sft", "initial"):
        if (models / name).is_dir():
            return models / name
    raise NotFound(f"{models} has no weights", hint=f"assay ablate --resume {folder.path}")


def _train(run: AblationRun, *arms: AblationArm) -> None:
    start = start_weights(run.folder).resolve()
    orders = [
        RunOrder(run.folder.run(arm.name, seed), arm_config(run.plan, arm, seed, start), arm.name)
        for arm in arms
        for seed in run.plan.config.seeds
    ]
    _finish(run, "arm " + ", ".join(arm.name for arm in arms), orders)


def _finish(run: AblationRun, stage: str, orders: Sequence[RunOrder]) -> None:
    num_done = sum(is_finished(one.folder) for one in orders)
    if num_done == len(orders):
        return
    run.status(stage, num_done, len(orders))
    run.record("runs_started", stage=stage, num_runs=len(orders), num_done=num_done)
    unusable = run_all(orders, run.lanes, run.stop, run.on_progress)
    run.failed |= unusable
    for arm, reason in unusable.items():
        run.record("arm_failed", arm=arm, reason=reason)
    num_done = sum(is_finished(one.folder) for one in orders)
    run.record("runs_finished", stage=stage, num_runs=num_done)


def _controls(run: AblationRun, arm: AblationArm) -> PlantedChanges:
    path = run.folder.controls
    if not path.exists():
        run.status("controls")
        _compute(run, "controls", arm.name)
    return PlantedChanges.model_validate_json(path.read_text())


def _decomposition(run: AblationRun, arm: AblationArm, previous: AblationArm) -> Decomposition:
    path = run.folder.decomposition(arm.name)
    if not path.exists() or _read_decomposition(path).previous != previous.name:
        run.status(f"decompose {arm.name}")
        _compute(run, "arm", arm.name, previous.name)
    return _read_decomposition(path)


def _read_decomposition(path: Path) -> Decomposition:
    return Decomposition.model_validate_json(path.read_text())


def _compute(run: AblationRun, kind: str, *names: str) -> None:
    """Compute gradients in another process.

    Raises:
        Stopped: a stop was requested.
        InternalFault: the process failed.
    """
    module = "assay_trainer.ablation.decomposition.process"
    folder, seed = str(run.folder.path), str(run.plan.config.seeds[0])
    log = run.folder.path / "decomposition.log"
    process = spawn((sys.executable, "-m", module, folder, kind, *names, seed), log=log)
    try:
        while process.poll() is None:
            run.stop.check()
            try:
                process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
    finally:
        end([process], _GRACE_S)
    if process.returncode:
        last = " ".join(last_lines(log, 1)) or f"its process ended with {process.returncode}"
        raise InternalFault(
            f"the gradients of {' and '.join(names)} could not be compared: {last}",
            hint=f"the log is {log}",
        )
