"""The settings of a run's attempts: what changed is recorded, what a stage has used must stay."""

from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel, JsonValue

from assay_shared.errors import ConfigError
from assay_shared.runs.run_folder import Event, RunFolder
from assay_shared.settings.run_file import dotted_settings
from assay_trainer.config import RunConfig

_KIND = "settings"
#: The stages in their order, from the first that uses the settings of its row.
_STAGES = ("policy", "sft", "dpo", "evaluate before", "signal", "grpo", "evaluate after")
#: The first stage that uses a setting, by its section. GRPO's may change until GRPO has ended, and
#: rows of data are compared themselves.
_FIRST_USE = {
    "seed": "policy",
    "policy": "policy",
    "sft": "sft",
    "dpo": "dpo",
    "evaluation": "evaluate before",
    "curriculum": "grpo",
    "grpo": "evaluate after",
}
#: Settings of these sections that change memory, time and measurements, but nothing that is learnt
#: or compared.
_FREE = {
    *("sft.micro_batch_size", "sft.checkpoint_every", "sft.validation_every"),
    *("dpo.micro_batch_size", "dpo.checkpoint_every"),
    *("grpo.tokens_per_pack", "grpo.checkpoint_every", "grpo.group_timeout_s"),
    *("grpo.group_attempts", "grpo.max_failed_groups"),
    *("evaluation.confidence", "evaluation.groups_in_flight", "evaluation.group_timeout_s"),
    *("evaluation.group_attempts", "evaluation.max_failed_groups"),
    *("evaluation.tiers", "evaluation.best"),
}


class SettingsUsed(BaseModel):
    """settings: of an attempt, by their dotted names; those changed since the last attempt."""

    values: dict[str, JsonValue]
    changed: list[str] = []


def record_settings(folder: RunFolder, config: RunConfig) -> None:
    """Record the settings of an attempt, unless they are those of the last attempt.

    Raises:
        ConfigError: a stage has used a changed setting; names it.
    """
    events = list(folder.read_events())
    before, values = _last_settings(events), dict(dotted_settings(config.model_dump(mode="json")))
    changed = [] if before is None else list(_changes(before, values))
    if before is not None and not changed:
        return
    begun = {str(one.data["stage"]) for one in events if one.kind == "stage_started"}
    for key in _named(changed, values):
        stage = _used_by(key, begun)
        if stage is not None:
            assert before is not None
            used = f"{before[key]!r:.200}" if key in before else "this section"
            raise ConfigError(
                f"stage {stage!r} of this run has used {used}, not {values.get(key)!r:.200}",
                field=key,
                hint=f"put the old value back in {folder.config}, or begin a new run",
            )
    folder.record(_KIND, values=values, changed=list[JsonValue](changed))


def _named(changed: Iterable[str], values: Mapping[str, JsonValue]) -> list[str]:
    """Return the changed settings, with a section in their place where it is null now."""
    sections = {key: key.partition(".")[0] for key in changed}
    named = (above if above in values else key for key, above in sections.items())
    return list(dict.fromkeys(named))


def _used_by(key: str, begun: set[str]) -> str | None:
    """Return a begun stage that uses a setting or section, or None."""
    if key in begun:  # the stage's whole section goes
        return key
    if any(key == free or key.startswith(f"{free}.") for free in _FREE):
        return None
    first = _FIRST_USE.get(key.partition(".")[0])
    if first is None:
        return None
    users = _STAGES[_STAGES.index(first) :]
    found = next((stage for stage in users if stage in begun), None)
    return "grpo" if found == "evaluate after" else found


def _changes(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the settings of before that are others now, or gone with or into their section.

    One that is new in its section is the default of a later release.
    """
    for key in sorted(before):
        # The commit of a hub's name is written once it is known.
        is_pinned = key.endswith(".revision") and before[key] is None
        if not is_pinned and (key not in after or before[key] != after[key]):
            yield key


def _last_settings(events: Iterable[Event]) -> dict[str, JsonValue] | None:
    found = [SettingsUsed.model_validate(one.data) for one in events if one.kind == _KIND]
    return found[-1].values if found else None
