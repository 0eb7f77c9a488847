"""The winner of an ablation as the start of a curriculum: its settings and its first weights."""

import copy
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from assay_shared.errors import ConfigError, DatasetError
from assay_shared.settings.run_file import from_home, parse_config, read_values, section_of
from assay_shared.weights import checkpoint
from assay_trainer.config import RunConfig

WINNER = "winner.json"
_FIELD = "curriculum.from"
_MISSING = object()


class AblationWinner(BaseModel):
    """The content of winner.json. Without a winner, `arm` is null and `verdict` says why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    arm: str | None
    verdict: str
    #: The folder of the weights that all arms begin with, from the ablation's folder.
    start_folder: Path
    #: Of these weights.
    digest: str
    #: Settings of the winner, by their dotted names.
    overrides: dict[str, JsonValue] = {}
    #: Settings of every arm.
    arms: dict[str, dict[str, JsonValue]] = {}
    #: Of the fields above but the verdict; a file that was changed by hand has another one.
    settings_digest: str = ""

    @property
    def computed_digest(self) -> str:
        """Return the SHA-256 of the arm, its settings, those of all arms, and the start."""
        fields = self.model_dump(mode="json", exclude={"verdict", "settings_digest"})
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def load_run(path: Path, overrides: tuple[str, ...] = ()) -> RunConfig:
    """Return a run file with its overrides and the settings of the winner that it names.

    Raises:
        ConfigError: a key is wrong, there is no winner, or the file and the winner disagree.
    """
    return parse_config(RunConfig, with_winner(read_values(path, overrides)), source=path.name)


def with_winner(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a run file with what `curriculum.from` stands for.

    Values that had it filled in before are returned as they are.

    Raises:
        ConfigError: there is no winner, or the file and the winner disagree.
    """
    curriculum = values.get("curriculum")
    if not isinstance(curriculum, dict) or curriculum.get("from") is None:
        return values
    if curriculum.get("winner") is not None:
        return values
    given = curriculum["from"]
    if not isinstance(given, str | Path):
        raise ConfigError(f"must be the folder of an ablation, not {given!r:.200}", field=_FIELD)
    folder = from_home(Path(given), _FIELD)
    found = read_winner(folder)
    arm, overrides = _taken(found, curriculum.get("arm"), folder)
    filled = copy.deepcopy(values)
    for key, value in overrides.items():
        _set(filled, key, value, arm)
    start = found.start_folder if found.start_folder.is_absolute() else folder / found.start_folder
    _check_start(start, found.digest)
    _set_start(filled, start, folder)
    filled["curriculum"]["winner"] = {"arm": arm, "digest": found.digest, "overrides": overrides}
    return filled


def read_winner(folder: Path) -> AblationWinner:
    """Return the winner in the folder of an ablation.

    Raises:
        ConfigError: the folder has none that can be read, or not as it was written.
    """
    path = folder / WINNER
    try:
        found = AblationWinner.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            field=_FIELD,
            hint=f"write it with `assay ablate --winner {folder}`",
        ) from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise ConfigError(f"{path}: {place}: {first['msg']}", field=_FIELD) from None
    if found.settings_digest != found.computed_digest:
        raise ConfigError(
            f"{path} is not as the ablation wrote it: its settings_digest is of other settings",
            field=_FIELD,
            hint=f"write it again with `assay ablate --winner {folder}`; "
            "other settings than the winner's belong in a run file without curriculum.from",
        )
    return found


def _taken(
    found: AblationWinner, asked: object, folder: Path
) -> tuple[str, Mapping[str, JsonValue]]:
    """Return the arm to take, with its settings."""
    if asked is None and found.arm is None:
        raise ConfigError(
            f"no arm of {folder} has won: {found.verdict}",
            field=_FIELD,
            hint=f"name an arm with curriculum.arm: {', '.join(found.arms) or 'the baseline'}",
        )
    arm = found.arm if asked is None else str(asked)
    assert arm is not None
    if arm == found.arm:
        return arm, found.overrides
    if arm not in found.arms:
        known = ", ".join(dict.fromkeys([*found.arms, *([found.arm] if found.arm else [])]))
        raise ConfigError(
            f"{folder} has no arm {arm!r}", field="curriculum.arm", hint=f"arms: {known or 'none'}"
        )
    return arm, found.arms[arm]


def _set(values: dict[str, Any], key: str, value: JsonValue, arm: str) -> None:
    """Set a dotted key, unless the file says something else about it."""
    section, last = section_of(values, key)
    written = section.get(last, _MISSING)
    if written is not _MISSING and json.dumps(written) != json.dumps(value):
        raise ConfigError(
            f"the arm {arm} has {value!r}, and the run file has {written!r}",
            field=key,
            hint="leave it out of the run file, or take curriculum.from out",
        )
    section[last] = value


def _check_start(start: Path, digest: str) -> None:
    try:
        seen = checkpoint.digest(start)
    except (OSError, DatasetError) as error:
        raise ConfigError(f"the ablation's start cannot be read: {error}", field=_FIELD) from None
    if seen != digest:
        raise ConfigError(
            f"{start} is not the ablation's start: its digest is {seen[:12]}, not {digest[:12]}",
            field=_FIELD,
        )


def _set_start(values: dict[str, Any], start: Path, folder: Path) -> None:
    policy = values.setdefault("policy", {})
    if not isinstance(policy, dict):
        raise ConfigError("policy is not a section", field="policy")
    for name in ("new", "hub"):
        if policy.get(name) is not None:
            raise ConfigError(
                f"curriculum.from {folder} brings the first weights with it",
                field=f"policy.{name}",
                hint="leave it out",
            )
    given = policy.get("folder")
    given = None if given is None else from_home(Path(str(given)), "policy.folder")
    if given is not None and given.resolve() != start.resolve():
        raise ConfigError(
            f"{given} is not {start}, the start of the ablation",
            field="policy.folder",
            hint="leave it out",
        )
    for stage in ("sft", "dpo"):
        if values.get(stage) is not None:
            raise ConfigError(
                "the ablation's start is trained already", field=stage, hint="leave it out"
            )
    policy["folder"] = str(start)
