"""The data stages: open the task sets, check them for leaks, and validate their rewards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import ConfigError
from assay_shared.runs.run_folder import Event, write_atomically
from assay_shared.types import PromptFormat, RubricInfo, Task
from assay_trainer.checks.leaks.check import check_leaks
from assay_trainer.checks.rewards import known_rubrics, prove
from assay_trainer.config import Source
from assay_trainer.curriculum.selection import StageTasks, measured_stages, stage_tasks
from assay_trainer.curriculum.stage_rules import check_stages
from assay_trainer.data.control_tokens import with_control_tokens
from assay_trainer.data.dataset import DatasetPurpose
from assay_trainer.data.governance.manifest import read_manifest
from assay_trainer.data.preferences import Preference, open_preferences
from assay_trainer.data.run_data import RunSet, digest_of, open_set
from assay_trainer.data.tokenization import too_long
from assay_trainer.events import DataOpened
from assay_trainer.learner.network.context import context_of
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.plan_rules import refuse_long_answers
from assay_trainer.rollouts.set_aside import without_rubric
from assay_trainer.table_source import ImportedSource

_TRAIN, _DEMONSTRATIONS = "data.train", "data.demonstrations"
#: The stages that learn from a set or measure with it, by the set's field in the run file. Without
#: demonstrations, SFT learns from the training set.
_USED_BY = {
    _TRAIN: ("signal", "grpo"),
    _DEMONSTRATIONS: ("sft",),
    "data.held_out": ("evaluate before", "evaluate after"),
    "dpo.data": ("dpo",),
}
#: What is found of all rows before the first stage.
_CHECKS = ("leaks.json", "validation.jsonl")


@dataclass(frozen=True)
class RunSets:
    """The task sets of a run; `demonstrations` is `train` unless the run file names a set."""

    train: RunSet
    demonstrations: RunSet
    held_out: RunSet
    #: What DPO learns from.
    preferences: Sequence[Preference] = ()

    @property
    def other_demonstrations(self) -> list[Task]:
        """Return the demonstrations' tasks from outside the training set."""
        return [] if self.demonstrations is self.train else self.demonstrations.dataset.tasks

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each set's rows, by its field in the run file."""
        found = {_TRAIN: self.train.digest(), "data.held_out": self.held_out.digest()}
        if self.demonstrations is not self.train:
            found[_DEMONSTRATIONS] = self.demonstrations.digest()
        if self.preferences:
            found["dpo.data"] = digest_of(
                text
                for one in self.preferences
                for text in (
                    one.task.model_dump_json(exclude_defaults=True),
                    one.chosen,
                    one.rejected,
                )
            )
        return found


def open_sets(run: RunContext) -> RunSets:
    """Open the sets of the run file and write their tasks to the run's folder.

    Raises:
        DatasetError: a row cannot be used, or too many tasks must be set aside.
        RoleError: a set for training has a task of another role.
        ConfigError: a stage of the curriculum does not go with the tasks, or a stage of an earlier
            attempt has used other rows.
    """
    data = run.config.data

    def opened(name: str, source: Source, purpose: DatasetPurpose) -> RunSet:
        folder, share = run.settings.data, data.max_set_aside_share
        return open_set(name, source, purpose, folder, share, run.record_set_aside)

    train = opened("training", data.train, DatasetPurpose.TRAIN)
    demonstrations = train
    if data.demonstrations:
        demonstrations = opened("demonstration", data.demonstrations, DatasetPurpose.TRAIN)
    held_out = opened("held-out", data.held_out, DatasetPurpose.EVALUATE)
    dpo = run.config.dpo
    preferences = open_preferences(dpo.data, run.settings.data) if dpo else ()
    sets = RunSets(train, demonstrations, held_out, preferences)
    digests = sets.digests()
    _check_rows(run, digests)
    _keep_manifests(run)
    check_stages(run.config, train.dataset.tasks, held_out.dataset.tasks)
    tasks = train.dataset.tasks + sets.held_out.dataset.tasks
    write_atomically(run.folder.tasks, "\n".join(t.model_dump_json() for t in tasks) + "\n")
    run.record(
        "data",
        num_train=len(train.dataset.tasks),
        num_held_out=len(held_out.dataset.tasks),
        num_preferences=len(sets.preferences),
        digests=dict(digests),
    )
    return sets


def _check_rows(run: RunContext, digests: dict[str, str]) -> None:
    """Compare the sets, by field, with those of the run's last attempt.

    A set may change until a stage uses it. Then the checks of rows are made again.

    Raises:
        ConfigError: a stage has begun with other rows.
    """
    events = list(run.folder.read_events())
    before = _last_digests(events)
    changed = [field for field, own in digests.items() if before.get(field, own) != own]
    begun = [event.data["stage"] for event in events if event.kind == "stage_started"]
    for field in changed:
        stages = _USED_BY[field]
        if field == _TRAIN and _DEMONSTRATIONS not in digests:
            stages += _USED_BY[_DEMONSTRATIONS]
        used_by = next((stage for stage in begun if stage in stages), None)
        if used_by is not None:
            raise ConfigError(
                f"its rows are not those with which stage {used_by!r} of this run began",
                field=field,
                hint="put the old rows in their place, or begin a new run",
            )
    if changed:
        for name in _CHECKS:
            (run.folder.path / name).unlink(missing_ok=True)


def _last_digests(events: Iterable[Event]) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events:
        if event.kind == "data":
            found = DataOpened.model_validate(event.data).digests or found
    return found


def _keep_manifests(run: RunContext) -> None:
    """Copy the manifests of imported sets into the run's folder: theirs may change later."""
    data, dpo = run.config.data, run.config.dpo
    named: dict[str, object] = {
        "training": data.train,
        "demonstration": data.demonstrations,
        "held-out": data.held_out,
        "preference": dpo.data if dpo else None,
    }
    for name, source in named.items():
        if isinstance(source, ImportedSource):
            content = read_manifest(source.path).model_dump_json(indent=1)
            write_atomically(run.folder.set_manifest(name), content + "\n")


def training_stages(run: RunContext, sets: RunSets) -> list[StageTasks]:
    """Return the training tasks of each stage of the curriculum; none without one."""
    config = run.config.curriculum
    return [] if config is None else stage_tasks(config, sets.train.dataset.tasks, "training")


def held_out_stages(run: RunContext, sets: RunSets) -> list[StageTasks]:
    """Return the held-out tasks of each stage of the curriculum; none if none are measured.

    Raises:
        RoleError: the end of a stage would depend on rows for tests.
    """
    config = run.config.curriculum
    return [] if config is None else measured_stages(config, sets.held_out.dataset.tasks)


def check_for_leaks(run: RunContext, sets: RunSets) -> None:
    """Search the training data for held-out tasks, once per run.

    Raises:
        DatasetError: the training data contains too many of them.
    """
    config, path = run.config.data.leaks, run.folder.path / "leaks.json"
    if config is None or path.exists():
        return
    shown = [] if sets.demonstrations is sets.train else sets.demonstrations.usable.tasks
    training = sets.train.usable.tasks + shown + [one.task for one in sets.preferences]
    with run.stage("leaks"):
        found = check_leaks(training, sets.held_out.usable.tasks, config, run.config.seed)
        run.record("leaks_checked", **found.counts())
        found.refuse(config.max_share)
        found.write(path)


def validate_rewards(run: RunContext, sets: RunSets) -> None:
    """Prove the rewards of a sample of tasks, once per run.

    Raises:
        DatasetError: too many rewards cannot be trusted.
    """
    config, path = run.config.data.validation, run.folder.path / "validation.jsonl"
    if config is None or path.exists():
        return
    both = (sets.train, sets.held_out)
    num_tasks = sum(min(config.sample, len(one.usable.tasks)) for one in both)
    with run.stage("validate", num_tasks):
        rubrics = known_rubrics(run.settings)
        for one in both:
            one.set_aside.add_all(without_rubric(one.usable.tasks, set(rubrics)))
        _tell_recommendations(run, sets, rubrics)
        tasks = [one.usable.tasks for one in both]
        found = prove(tasks, config, run.settings, run.config.seed)
        run.record("validated", **found.counts())
        found.refuse(config.max_bad_share)
        found.write(path)


def _tell_recommendations(run: RunContext, sets: RunSets, rubrics: dict[str, RubricInfo]) -> None:
    """Record each rubric in use that recommends another normalisation than the run's."""
    if run.config.grpo is None:
        return
    used = {task.rubric for task in sets.train.usable.tasks}
    for name, info in sorted(rubrics.items()):
        recommended = info.recommended_normalise
        if name in used and recommended not in (None, run.config.grpo.normalise):
            run.record(
                "normalise_differs",
                rubric=name,
                recommended=str(recommended),
                used=run.config.grpo.normalise,
            )


def check_template(sets: RunSets, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the policy has a chat template, if a task of the run needs one.

    Raises:
        ConfigError: it has none.
    """
    if tokenizer.chat_template:
        return
    given = [one.task for one in sets.preferences]
    for some in (sets.train.usable.tasks, sets.held_out.usable.tasks, sets.other_demonstrations):
        given += some
    for task in given:
        if task.prompt_format is not PromptFormat.RAW:
            raise ConfigError(
                f"the policy's tokenizer has no chat template, and task {task.id} is a chat",
                field="policy",
                hint="give tasks `prompt_format: raw`, or take a policy with a chat template",
            )


def set_aside_control_tokens(
    run: RunContext, sets: RunSets, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Set aside the training tasks of GRPO whose prompt has a control token of the policy.

    Such a prompt can hold messages that are not the task's, such as the beginning of an answer.
    """
    if run.config.grpo is None:
        return
    rows = [(task, ()) for task in sets.train.usable.tasks]
    unclean = with_control_tokens(rows, tokenizer)
    run.record("channel_checked", stage="grpo", num_rows=len(rows), num_unclean=len(unclean))
    sets.train.set_aside.add_all(unclean)


def set_aside_too_long(
    run: RunContext, sets: RunSets, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Set aside the tasks too long for the policy's context.

    Raises:
        ConfigError: an answer alone may be as long as the context.
    """
    context = context_of(model.config)
    if context is None:
        return
    refuse_long_answers(run.config, context)
    limits = [(sets.held_out, run.config.evaluation.max_tokens)]
    if run.config.grpo is not None:
        limits.append((sets.train, run.config.grpo.max_tokens))
    for one, max_tokens in limits:
        one.set_aside.add_all(too_long(one.usable.tasks, tokenizer, context, max_tokens))
