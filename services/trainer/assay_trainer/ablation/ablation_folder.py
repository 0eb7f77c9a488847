"""The folder of an ablation: the file as it was read, its runs, decompositions and report.

ablation.json          the resolved file and the base, with a digest of each field, git commit and
                       package versions
status.json, events.jsonl   as in a run's folder
NAME-start/            the run of the start
NAME-ARM-sSEED/        the run of an arm and a seed
controls.json          the planted no-ops, and what was found
decompositions/ARM.json  what an arm changes in gradients and samples
trivial.json           policies without skill
report.md, report.json, report.html, winner.yaml
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from assay_shared.errors import ConfigError, NotFound
from assay_shared.runs.run_folder import RunFolder, write_json
from assay_shared.settings.run_file import parse_config, provenance
from assay_trainer.ablation.ablation_config import AblationConfig
from assay_trainer.ablation.arms import TIER, AblationPlan, make_plan
from assay_trainer.evaluation.records.folder import EvaluationFolder

_FILE = "ablation.json"
#: Sections of the file that say what is compared.
_OF_THE_PLAN = ("config", "base", "runs")


class AblationFolder:
    """Paths and records of an ablation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Its status and its events.
        self.record = RunFolder(path)

    @classmethod
    def create(cls, path: Path, plan: AblationPlan) -> "AblationFolder":
        """Create and return a new folder.

        Raises:
            Conflict: `path` exists.
        """
        folder = cls(RunFolder.create(path).path)
        values = {
            "config": plan.config.model_dump(
                mode="json", exclude_unset=True, exclude={"base", "run"}
            ),
            "base": jsonable(plan.values),
            "runs": path.name[:60],
        }
        write_json(folder.path / _FILE, values | {"digests": _digests(values)} | provenance())
        return folder

    @classmethod
    def open(cls, path: Path) -> "AblationFolder":
        """Return an existing folder.

        Raises:
            NotFound: it is none of an ablation.
        """
        if not (path / _FILE).is_file():
            raise NotFound(f"{path} is not an ablation's folder: it has no {_FILE}")
        return cls(path)

    def plan(self) -> AblationPlan:
        """Return the plan as it was when the folder was made.

        Raises:
            ConfigError: a field was changed since then; names it.
        """
        values = json.loads((self.path / _FILE).read_text())
        _check_unchanged(values, self.path / _FILE)
        given = {**values["config"], "base": None, "run": values["base"]}
        config = parse_config(AblationConfig, given, source=str(self.path / _FILE))
        # The base has the changes of all arms already; they change nothing the second time.
        return make_plan(config, values["base"])

    @property
    def start(self) -> Path:
        return self.path / f"{self._runs}-start"

    def run(self, arm: str, seed: int) -> Path:
        return self.path / f"{self._runs}-{arm}-s{seed}"

    @cached_property
    def _runs(self) -> str:
        """The first name of all runs: the folder's at first, also after it was moved or copied."""
        return str(json.loads((self.path / _FILE).read_text())["runs"])

    @property
    def controls(self) -> Path:
        return self.path / "controls.json"

    @property
    def trivial(self) -> Path:
        return self.path / "trivial.json"

    @property
    def report(self) -> Path:
        return self.path / "report.json"

    def decomposition(self, arm: str) -> Path:
        return self.path / "decompositions" / f"{arm}.json"

    def measured(self, run: Path) -> EvaluationFolder:
        """Return the frozen evaluation of a run's end."""
        return EvaluationFolder(run / "evaluation" / "tiers" / TIER / "end")


def _digests(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each field of an ablation's file, by dotted name.

    A section's is of the names in it: the order of arms and sets counts.
    """
    fields = {name: values[name] for name in _OF_THE_PLAN if name in values}
    return {
        name: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
        for name, value in _fields("", fields)
    }


def _fields(name: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if not isinstance(value, dict):
        yield name, value
        return
    if name:
        yield name, list(value)
    for key, one in value.items():
        yield from _fields(f"{name}.{key}" if name else key, one)


def _check_unchanged(values: Mapping[str, Any], file: Path) -> None:
    """Check that every field has the digest that it had when the folder was made.

    Raises:
        ConfigError: a field was changed, added or removed, or the digests were.
    """
    kept: dict[str, str] = values.get("digests") or {}
    found = _digests(values)
    changed = [name for name in {**kept, **found} if kept.get(name) != found.get(name)]
    if changed:
        raise ConfigError(
            f"{file} was changed after the ablation began",
            field=max(changed, key=lambda name: name.count(".")),
            hint="put the field back, or begin another ablation: arms and goals are set before "
            "results are seen",
        )


def jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a YAML file as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return found


def is_finished(run: Path) -> bool:
    """Return True if the run in this folder has finished."""
    return (run / "config.json").is_file() and RunFolder(
        run
    ).read_status_or_damage().state == "finished"
