"""The run files of stages, looked up before a stage runs: the policy and the data they name."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay_shared.errors import AssayError, ConfigError, NotFound
from assay_shared.settings.run_file import apply_override, from_home, read_values, read_yaml
from assay_trainer.pipelines.checks.stage_policies import check_offline
from assay_trainer.pipelines.placeholders import filled_value
from assay_trainer.pipelines.runner import Pipeline, PlannedStage
from assay_trainer.pipelines.stage_kinds import AblateStage, CommandStage, TrainStage

_OUTPUT = ("--output", "--folder")
#: Sections of a run file that may name data.
_DATA = ("data", "dpo", "evaluation")


def check_run_file(planned: PlannedStage, pipeline: Pipeline) -> list[str]:
    """Check what the run file of a stage names; return notes for a person.

    What an earlier stage makes is not missed: a path in the pipeline's folder, or one that a
    command is given as its output.

    Raises:
        NotFound: a folder or a file is missing, or offline mode lacks a hub's model.
        ConfigError: a file cannot be read.
    """
    stage = planned.stage
    if isinstance(stage, TrainStage):
        values = _values(pipeline, stage.run, stage.overrides)
        named, has_policy = list(_named_in(values)), stage.policy is not None
    elif isinstance(stage, AblateStage):
        own = _values(pipeline, stage.file, stage.overrides)
        values = _base(Path(pipeline.places.file(stage.file)), own)
        named, has_policy = [*_named_in(values), *_named_in(own)], False
    else:
        return []
    field = f"stages.{planned.name}.{'run' if isinstance(stage, TrainStage) else 'file'}"
    made = _Made(pipeline)
    for key, given in named:
        try:
            path = from_home(given, key)
        except ConfigError as error:
            raise ConfigError(str(error), field=field) from None
        # The stage's policy stands in the place of the file's own.
        is_replaced = has_policy and key == "policy.folder"
        if not is_replaced and not path.exists() and not made.has(path):
            raise NotFound(
                f"{key} is {path}, and there is no such file or folder",
                field=field,
                hint=f"paths of a run file are from the folder of the command, {Path.cwd()}",
            )
    return [] if has_policy else _hub_note(planned.name, field, values.get("policy"))


def _values(pipeline: Pipeline, file: Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    folders = pipeline.places.folders
    changes = (f"{key}={json.dumps(filled_value(one, folders))}" for key, one in overrides.items())
    return read_values(Path(pipeline.places.file(file)), tuple(changes))


def _base(file: Path, own: dict[str, Any]) -> dict[str, Any]:
    """Return the run file under an ablation's, with the changes of all arms."""
    base, run = own.get("base"), own.get("run")
    values = (
        read_yaml(file.parent / from_home(Path(base), "base"))
        if isinstance(base, str)
        else dict(run or {})
    )
    for key, one in (own.get("overrides") or {}).items():
        apply_override(values, f"{key}={json.dumps(one)}")
    return values


def _named_in(values: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Yield the keys and the paths in a run file: a policy, an ablation, and data."""
    for section, key in (("policy", "folder"), ("curriculum", "from")):
        found = values.get(section)
        if isinstance(found, dict) and isinstance(found.get(key), str):
            yield f"{section}.{key}", Path(found[key])
    for section in _DATA:
        yield from _sources(values.get(section), section)


def _sources(value: object, key: str) -> Iterator[tuple[str, Path]]:
    """Yield the paths of sources of data, which have a kind."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _sources(one, f"{key}.{number}")
    elif isinstance(value, dict):
        if "kind" in value and isinstance(value.get("path"), str):
            yield f"{key}.path", Path(value["path"])
        for name, one in value.items():
            yield from _sources(one, f"{key}.{name}")


def _hub_note(name: str, field: str, policy: object) -> list[str]:
    """Return a note about a hub's model, which may be a mistyped folder.

    Raises:
        NotFound: offline mode asks no hub, and the cache has no copy.
    """
    hub = policy.get("hub") if isinstance(policy, dict) else None
    if not isinstance(policy, dict) or not isinstance(hub, str):
        return []
    try:
        check_offline(hub, policy.get("revision"))
    except AssayError as error:
        raise NotFound(error.message, field=field, hint=error.hint) from None
    return [f"{name}: policy.hub of its run file is {hub}: it is asked of the hub"]


class _Made:
    """What stages of a pipeline make: their folders, and outputs of commands."""

    def __init__(self, pipeline: Pipeline) -> None:
        stages = [one.stage for one in pipeline.stages.values()]
        lines = [one.words for one in stages if isinstance(one, CommandStage)]
        outputs = [
            word
            for words in lines
            for before, word in zip(("", *words), words, strict=False)
            if before in _OUTPUT
        ]
        self._exact = {Path(word).absolute() for words in lines for word in words}
        self._folders = {Path(one).absolute() for one in outputs} | {pipeline.folder.absolute()}

    def has(self, path: Path) -> bool:
        whole = path.absolute()
        return whole in self._exact or any(whole.is_relative_to(one) for one in self._folders)
