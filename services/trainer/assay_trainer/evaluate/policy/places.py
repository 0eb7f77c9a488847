"""The policy to evaluate: a folder, a run's model or checkpoints, or a hub's model."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assay_shared.errors import InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder
from assay_shared.weights import checkpoint as weights
from assay_trainer.evaluation.best_checkpoint import read_best
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.weights.model_folder import check_folder

#: Stages of a run in their order.
STAGES = ("initial", "sft", "dpo", "grpo")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class PolicyPlace:
    """Where a policy lies. `label` names it among the checkpoints of its run."""

    kind: Literal["folder", "run", "hub"]
    name: str
    folder: Path
    label: str = ""
    step: int | None = None
    revision: str | None = None
    #: Of a checkpoint of a run: the run, and the stage.
    run: RunFolder | None = None
    stage: str = ""

    def facts(self, folder: Path) -> EvaluatedPolicy:
        """Return what is stored of the policy, whose weights lie in `folder`.

        Raises:
            WeightsRefused: the folder is not a whole checkpoint.
        """
        return EvaluatedPolicy(
            kind=self.kind,
            name=self.name,
            digest=weights.digest(folder),
            step=self.step,
            revision=self.revision,
        )


def find_policies(given: str, steps: str | None) -> list[PolicyPlace]:
    """Return the places of what a name on the command line stands for; several only by `steps`.

    `given` is a checkpoint folder, RUN, RUN:STEP or RUN:STAGE, or owner/name[@revision] of a hub.
    `steps` is `all`, or steps such as 100,200.

    Raises:
        NotFound: there is nothing of this name, or no such step.
        InvalidInput: `steps` goes with a run alone; or the folder is not a whole model.
    """
    path, colon, part = given.rpartition(":")
    is_part = bool(colon) and not Path(given).exists() and is_run(Path(path))
    run, wanted = (Path(path), part) if is_part else (Path(given), "")
    if is_run(run):
        if steps is not None and wanted:
            raise InvalidInput("give either RUN:STEP or --steps", field="--steps")
        if steps is not None:
            return _walk(RunFolder(run), steps)
        return [_of_run(RunFolder(run), wanted)]
    if steps is not None:
        raise InvalidInput(f"it goes with a run's folder, which {given} is not", field="--steps")
    found = hub_name(given)
    place = _of_hub(*found) if found else PolicyPlace("folder", given, Path(given).resolve())
    check_folder(place.folder)
    return [place]


def hub_name(given: str, nearby: Path = Path()) -> tuple[str, str | None] | None:
    """Return the name and the revision of a hub's model; None of a folder or a run here.

    If the first part is a folder, here or in `nearby`, the name is taken as a path
    with a typing error. With a revision it is always a hub's.

    Raises:
        NotFound: there is nothing of this name.
    """
    path, colon, _ = given.rpartition(":")
    if Path(given).is_dir() or (colon and is_run(Path(path))):
        return None
    name, _, revision = given.partition("@")
    first = name.partition("/")[0]
    if not _HUB.fullmatch(given):
        raise NotFound(
            f"there is no policy {given!r}",
            hint="give a checkpoint folder, a run's folder, or owner/name of a hub",
        )
    if not revision and any((place / first).is_dir() for place in (Path(), nearby)):
        raise NotFound(
            f"there is no folder {given}, and {first} is one here",
            hint=f"correct the path; {name}@main is the model of this name in a hub",
        )
    return name, revision or None


def is_run(path: Path) -> bool:
    """Return True for the folder of a run; a checkpoint has config.json too, but no events."""
    return (path / "config.json").is_file() and (path / "events.jsonl").is_file()


def _of_hub(name: str, revision: str | None) -> PolicyPlace:
    from assay_trainer.hub import download, list_files, model_files, resolve

    repository = resolve("model", name, revision)
    folder = download(repository, model_files(list(list_files(repository)), repository))
    return PolicyPlace("hub", name, folder, revision=repository.revision)


def _of_run(run: RunFolder, wanted: str) -> PolicyPlace:
    if wanted.isdecimal():
        kept = checkpoints_of(run)
        matching = [one for one in kept if one.step == int(wanted)]
        if not matching:
            raise NotFound(f"{run.path} keeps no checkpoint of step {wanted}", hint=_kept(kept))
        return matching[-1]
    if wanted and wanted not in STAGES:
        raise NotFound(f"{run.path}: {wanted!r} is neither a step nor one of {', '.join(STAGES)}")
    return _last_model(run, wanted)


def _walk(run: RunFolder, steps: str) -> list[PolicyPlace]:
    """Return the checkpoints of the steps; with `all` the models of the stages as well."""
    kept = checkpoints_of(run)
    if steps == "all":
        models = [_model(run, stage) for stage in STAGES if _has_model(run, stage)]
        if not kept and not models:
            raise NotFound(f"{run.path} keeps no checkpoint")
        return sorted([*kept, *models], key=_order)
    try:
        wanted = [int(one) for one in steps.split(",")]
    except ValueError:
        raise InvalidInput(f"{steps!r} is neither all nor steps", field="--steps") from None
    by_step = {one.step: one for one in kept}
    missing = [step for step in wanted if step not in by_step]
    if missing:
        raise NotFound(f"{run.path} keeps no checkpoint of step {missing[0]}", hint=_kept(kept))
    return [by_step[step] for step in wanted]


def _order(place: PolicyPlace) -> tuple[int, float]:
    """Return the order of a run's policies: a stage's model comes after its checkpoints."""
    return STAGES.index(place.stage), float("inf") if place.step is None else place.step


def checkpoints_of(run: RunFolder) -> list[PolicyPlace]:
    """Return the complete checkpoints of a run, in the order of the stages."""
    found = []
    for stage in STAGES:
        for folder in (run.checkpoints / stage).glob("checkpoint-*"):
            named = _CHECKPOINT.fullmatch(folder.name)
            if named and (folder / "assay.json").is_file():
                found.append(_checkpoint(run, stage, int(named[1]), folder))
    return sorted(found, key=_order)


def _kept(kept: list[PolicyPlace]) -> str:
    names = ", ".join(one.label for one in kept)
    return f"it keeps {names or 'none'}; retention.checkpoints of its run file says how many"


def _last_model(run: RunFolder, stage: str) -> PolicyPlace:
    """Return the model of a stage; without one, the best checkpoint, else the last model."""
    best = None if stage else read_best(run.path)
    if best is not None:
        return _checkpoint(run, best.stage, best.step, run.path / best.folder)
    for name in (stage,) if stage else reversed(STAGES):
        if _has_model(run, name):
            return _model(run, name)
    kept = checkpoints_of(run)
    if kept and not stage:
        return kept[-1]
    raise NotFound(f"{run.path} has no model{f' of {stage}' if stage else ''} yet")


def _has_model(run: RunFolder, stage: str) -> bool:
    return (run.path / "models" / stage).is_dir()


def _model(run: RunFolder, stage: str) -> PolicyPlace:
    folder = (run.path / "models" / stage).resolve()
    return PolicyPlace("run", f"{run.path}:{stage}", folder, stage, stage=stage)


def _checkpoint(run: RunFolder, stage: str, step: int | None, folder: Path) -> PolicyPlace:
    label = stage if step is None else f"{stage}-{step}"
    name = f"{run.path}:{stage if step is None else step}"
    return PolicyPlace("run", name, folder.resolve(), label, step, run=run, stage=stage)
