"""The data of a run: its sets, tasks, mixtures, leaks and duplicates, as far as it records them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from assay_shared.runs.regular_file import read_regular, reason_of
from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.validation import message_of
from assay_trainer import events
from assay_trainer.browser.facts.run_events import RunEvents
from assay_trainer.browser.facts.stored_leaks import StoredLeaks, read_leaks
from assay_trainer.browser.facts.task_counts import TaskCounts
from assay_trainer.config import GeneratedSource, RunConfig, Source
from assay_trainer.curriculum_config import CurriculumConfig
from assay_trainer.data.governance.manifest import ImportManifest
from assay_trainer.table_source import ImportedSource, PreferenceSource

_MOST_MANIFEST_BYTES = 16 * 2**20
_DOMAIN = "domain"


@dataclass(frozen=True)
class RunDataSet:
    """A set of a run: its number of rows, None if unknown, and its source as it is configured."""

    name: str
    number: int | None
    kind: str
    source: str
    manifest: ImportManifest | None
    #: Why an imported set's manifest is unknown.
    why_none: str
    num_set_aside: int


@dataclass(frozen=True)
class DomainShare:
    """A domain's share of the mixture asked for, of tasks, and of groups; None if unknown."""

    name: str
    asked: float | None
    num_tasks: int
    task_share: float | None
    num_played: int
    played_share: float | None
    num_trained: int
    trained_share: float | None
    #: A filter of samples; empty if the domain is not a tag.
    query: str


@dataclass(frozen=True)
class PartShare:
    """A part of a mixture: its share as asked and as achieved, None if unknown."""

    mixture: str
    part: str
    asked: float
    achieved: float | None
    number: int | None


@dataclass(frozen=True)
class RunData:
    """Everything that the browser says of a run's data."""

    sets: list[RunDataSet]
    counts: TaskCounts
    domains: list[DomainShare]
    parts: list[PartShare]
    #: Rows by dataset after the mixing of the training set.
    mixture: list[tuple[str, int]]
    leaks: StoredLeaks | None
    #: Of the event: with too many leaks, a run ends before it writes the findings.
    leaks_told: events.LeaksChecked | None
    leaks_problem: str
    set_aside: list[events.TaskSetAside]
    is_config_known: bool
    #: Whether the run file leaves the search for leaks out.
    skips_leaks: bool
    has_grpo: bool
    #: Stages that train on rows without a record of their domains.
    given_rows: list[str]

    @property
    def train(self) -> RunDataSet | None:
        return next((one for one in self.sets if one.name == "training"), None)


def run_data(
    folder: RunFolder, config: RunConfig | None, seen: RunEvents, counts: TaskCounts
) -> RunData:
    """Return the data of a run as far as events and tasks are read."""
    leaks, problem = read_leaks(folder.path / "leaks.json")
    sets = list(_sets(folder, config, seen))
    training = next((one.manifest for one in sets if one.name == "training"), None)
    mixture = training.mixture if training is not None and training.mixture else {}
    steps = list(seen.steps.values())
    return RunData(
        sets=sets,
        counts=counts,
        domains=_domains(counts, steps, _asked_by_domain(config, training, counts)),
        parts=[*_parts(config, training, counts), *_staged(config, steps)],
        mixture=sorted(mixture.items(), key=lambda one: -one[1]),
        leaks=leaks,
        leaks_told=seen.leaks,
        leaks_problem=problem,
        set_aside=seen.set_aside,
        is_config_known=config is not None,
        skips_leaks=config is not None and config.data.leaks is None,
        has_grpo=config is not None and config.grpo is not None,
        given_rows=_given_rows(config),
    )


def _given_rows(config: RunConfig | None) -> list[str]:
    if config is None:
        return []
    stages = {"SFT": config.sft, "DPO": config.dpo}
    return [name for name, stage in stages.items() if stage is not None]


def _sets(folder: RunFolder, config: RunConfig | None, seen: RunEvents) -> Iterator[RunDataSet]:
    told = seen.data
    aside = Counter(one.set for one in seen.set_aside)
    numbers: dict[str, int | None] = {
        "training": None if told is None else told.num_train,
        "held-out": None if told is None else told.num_held_out,
        "demonstration": None,
        "preference": None if told is None else told.num_preferences,
    }
    data = None if config is None else config.data
    sources: dict[str, Source | PreferenceSource | None] = {
        "training": None if data is None else data.train,
        "held-out": None if data is None else data.held_out,
        "demonstration": None if data is None else data.demonstrations,
        "preference": config.dpo.data if config is not None and config.dpo else None,
    }
    for name, source in sources.items():
        if source is None and not (config is None and numbers[name]):
            continue
        manifest, why = None, ""
        if isinstance(source, ImportedSource):
            manifest, why = _manifest(folder, name)
        yield RunDataSet(
            name=name,
            number=numbers[name],
            kind="" if source is None else source.kind,
            source="" if source is None else _told(source.model_dump(mode="json")),
            manifest=manifest,
            why_none=why,
            num_set_aside=aside[name],
        )


def _told(source: Mapping[str, Any]) -> str:
    """Return the settings of a source in a line."""
    given = {name: value for name, value in source.items() if value is not None and name != "kind"}
    return ", ".join(f"{name}: {value}" for name, value in given.items())[:1000]


def _manifest(folder: RunFolder, name: str) -> tuple[ImportManifest | None, str]:
    """Return the manifest of an imported set as the run found it, or why it is unknown."""
    file = folder.set_manifest(name)
    try:
        content = read_regular(file, _MOST_MANIFEST_BYTES)
        return ImportManifest.model_validate_json(content), ""
    except FileNotFoundError:
        return None, "the run has no copy of its manifest"
    except OSError as error:
        return None, f"sets/{file.name} cannot be read: {reason_of(error)}"
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))[:200]
        return None, f"sets/{file.name} cannot be read: {field}: {message_of(first):.200}"


def _asked_by_domain(
    config: RunConfig | None, training: ImportManifest | None, counts: TaskCounts
) -> dict[str, float] | None:
    """Return the shares asked of the training set by domain; None if it is not a mixture."""
    if config is not None and isinstance(config.data.train, GeneratedSource):
        return _generated_shares(config.data.train)
    if training is None or not training.parts:
        return None
    found: Counter[str] = Counter()
    for part in training.parts:
        found[part.domain] += part.asked  # type: ignore[assignment]
    # The domain of a folder of own tasks is not that of its rows.
    return dict(found) if found.keys() <= counts.by_domain("training").keys() else None


def _generated_shares(source: GeneratedSource) -> dict[str, float]:
    weights = {"code": source.code, "arithmetic": source.arithmetic, "lookup": source.lookup}
    total = sum(weights.values())
    return {name: one / total for name, one in weights.items()} if total else {}


def _domains(
    counts: TaskCounts, steps: list[events.StepEvent], asked: Mapping[str, float] | None
) -> list[DomainShare]:
    """Return the domains of the training tasks and of the groups, the most played ones first."""
    tasks = counts.by_domain("training")
    played: Counter[str] = Counter()
    trained: Counter[str] = Counter()
    for step in steps:
        played.update(step.played_by_domain)
        trained.update(step.trained_by_domain)
    known = {*tasks, *played, *trained, *(asked or ())}
    names = sorted(known, key=lambda one: (-played[one], -tasks[one], one))
    return [
        DomainShare(
            name=one,
            asked=None if asked is None else asked.get(one, 0.0),
            num_tasks=tasks[one],
            task_share=_share(tasks, one),
            num_played=played[one],
            played_share=_share(played, one),
            num_trained=trained[one],
            trained_share=_share(trained, one),
            query=one if one in counts.tagged else "",
        )
        for one in names
    ]


def _share(numbers: Counter[str], name: str) -> float | None:
    total = numbers.total()
    return numbers[name] / total if total else None


def _parts(
    config: RunConfig | None, training: ImportManifest | None, counts: TaskCounts
) -> Iterator[PartShare]:
    """Yield the parts that the training set was mixed of."""
    if config is not None and isinstance(config.data.train, GeneratedSource):
        tasks = counts.by_domain("training")
        for name, asked in _generated_shares(config.data.train).items():
            yield PartShare("training set", name, asked, _share(tasks, name), tasks[name])
    elif training is not None:
        total = sum(one.num_rows for one in training.parts)
        for part in training.parts:
            name = f"{part.name} ({part.domain})"
            share = part.num_rows / total if total else None
            yield PartShare("training set", name, part.asked, share, part.num_rows)


def _staged(config: RunConfig | None, steps: list[events.StepEvent]) -> Iterator[PartShare]:
    """Yield the parts of mixed stages of a curriculum.

    The played groups are recorded by domain: the share of a part that is chosen otherwise is
    unknown.
    """
    curriculum: CurriculumConfig | None = None if config is None else config.curriculum
    for stage in () if curriculum is None else curriculum.stages:
        played: Counter[str] = Counter()
        for step in steps:
            if step.curriculum_stage == stage.name:
                played.update(step.played_by_domain)
        total = sum(one.weight for one in stage.mix)
        for part in stage.mix:
            where = part.where
            value = where.get(_DOMAIN)
            names = (value,) if isinstance(value, str) else value or ()
            number = sum(played[one] for one in names) if set(where) == {_DOMAIN} else None
            known = number is not None and bool(played)
            yield PartShare(
                mixture=f"stage {stage.name}",
                part=", ".join(f"{name}: {_words(one)}" for name, one in where.items())[:300],
                asked=part.weight / total,
                achieved=number / played.total() if known and number is not None else None,
                number=number if known else None,
            )


def _words(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else " or ".join(value)
