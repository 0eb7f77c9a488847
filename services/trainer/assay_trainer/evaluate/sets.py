"""The sets of an evaluation: opened for measuring, perhaps a fixed random part of each."""

import hashlib
import random
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay_shared.errors import DatasetError, InvalidInput, RoleError
from assay_shared.types import EnvironmentTask, Message, PromptFormat, Role, Task
from assay_trainer.config import Source
from assay_trainer.data.dataset import DatasetPurpose, named_source, open_dataset
from assay_trainer.data.governance.manifest import MANIFEST, ROWS
from assay_trainer.evaluation.records.evaluation_record import EvaluatedSet
from assay_trainer.evaluation.records.protocol import Protocol, ProtocolKind
from assay_trainer.evaluation.records.sample_record import EvaluatedTask
from assay_trainer.table_source import ImportedSource

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: These names are other files of an evaluation's folder.
_TAKEN = frozenset({"qa", "evaluation.json", "report.md", "report.html"})
_KNOWN = ("humaneval", "gsm8k", "gsm8k:train")


@dataclass(frozen=True)
class OpenSet:
    """A set of an evaluation: its tasks, and the facts that are stored of it."""

    facts: EvaluatedSet
    tasks: Sequence[Task]

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def stored_tasks(self) -> list[EvaluatedTask]:
        """Return what is stored of the tasks."""
        return [
            EvaluatedTask(
                id=task.id,
                dataset=task.dataset,
                role=task.role,
                prompt=task.prompt,
                tags=task.tags,
                reference=task.reference if task.reference is not None else task.gold,
                rubric=task.rubric,
                history=task.history,
                prompt_format=task.prompt_format,
                is_episode=task.environment is not None,
            )
            for task in self.tasks
        ]


def open_sets(
    names: Sequence[str],
    data_folder: Path | None,
    *,
    limit: int | None,
    limit_seed: int,
    allow_train: bool,
) -> list[OpenSet]:
    """Return the named sets, each a name that is known, a file or a folder, perhaps as NAME=SET.

    Without `allow_train`, rows for training are left out and counted.

    Raises:
        InvalidInput: two sets have one name, or a name cannot be a folder's.
        RoleError: all rows of a set are for training, without `allow_train`.
        DatasetError: a set cannot be read; names file, line and field.
    """
    found: dict[str, OpenSet] = {}
    for given in names:
        name, source = _named(given)
        if name in found:
            raise InvalidInput(
                f"two sets are called {name}",
                field="--sets",
                hint=f"give one a name: other={source}",
            )
        found[name] = _opened(name, source, data_folder, limit, limit_seed, allow_train)
    return list(found.values())


def _named(given: str) -> tuple[str, str]:
    """Return the name and the source of a set."""
    name, equals, source = given.partition("=")
    if not equals or "/" in name:
        name, source = _usual_name(given), given
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise InvalidInput(
            f"{name[:100]!r} cannot be a set's name",
            field="--sets",
            hint="give it one of letters, digits, '_', '.' and '-': name=SET",
        )
    return name, source


def _usual_name(source: str) -> str:
    if source in _KNOWN:
        return source.replace(":", "-")
    path = Path(source)
    if path.name in (ROWS, f"{ROWS}.gz"):
        return path.resolve().parent.name
    return path.resolve().name.partition(".")[0]


def _opened(
    name: str,
    source: str,
    data_folder: Path | None,
    limit: int | None,
    limit_seed: int,
    allow_train: bool,
) -> OpenSet:
    if source not in _KNOWN and not Path(source).exists():
        raise DatasetError(
            f"there is no set {source!r}",
            field="--sets",
            hint=f"give a file, a folder, {', '.join(_KNOWN)}, or hub names to `assay data import`",
        )
    tasks = [task for one in _sources(source, allow_train) for task in _tasks(one, data_folder)]
    return made_set(
        name, source, tasks, limit=limit, limit_seed=limit_seed, allow_train=allow_train
    )


def made_set(
    name: str,
    source: str,
    tasks: list[Task],
    *,
    limit: int | None,
    limit_seed: int,
    allow_train: bool = False,
) -> OpenSet:
    """Return the set of tasks that were read; raises as `open_sets`."""
    if twice := [one for one, number in Counter(task.id for task in tasks).items() if number > 1]:
        raise DatasetError(f"{source} has two tasks with the id {twice[0]!r}", field="id")
    num_all = len(tasks)
    if not allow_train or not tasks:
        hint = "--allow-train measures on them all the same"
        refuse_training_rows(tasks, source, "--sets", hint)
        tasks = [task for task in tasks if task.role is not Role.TRAIN]
    num_left_out = num_all - len(tasks)
    tasks = _part(tasks, limit, limit_seed)
    roles = Counter(task.role for task in tasks)
    facts = EvaluatedSet(
        name=name,
        source=source,
        roles=dict(sorted(roles.items())),
        num_tasks=len(tasks),
        digest=digest_of(tasks),
        limit=limit,
        limit_seed=None if limit is None else limit_seed,
        num_train_left_out=num_left_out,
        test_only_opened=time.time() if roles[Role.TEST] else None,
    )
    return OpenSet(facts, tasks)


def refuse_training_rows(
    tasks: Collection[Task],
    name: str,
    field: str,
    hint: str = "give rows for validation or tests",
) -> None:
    """Refuse a set that has rows for training alone, or none.

    Raises:
        RoleError: it has.
    """
    if all(task.role is Role.TRAIN for task in tasks):
        raise RoleError(f"all {len(tasks)} rows of {name} are for training", field=field, hint=hint)


def _sources(source: str, allow_train: bool) -> list[Source]:
    """Return the sources of a set; a folder of `assay or-debug` has a tasks.jsonl in each cell."""
    path = Path(source)
    if path.is_dir() and not ((path / MANIFEST).is_file() and (path / ROWS).is_file()):
        files = sorted(path.glob(ROWS)) or sorted(path.glob(f"*/{ROWS}"))
        if not files:
            raise DatasetError(
                f"{path} has no {ROWS}",
                field="--sets",
                hint="`assay data import` and `assay or-debug generate` make folders of tasks",
            )
        return [named_source(str(file)) for file in files]
    found = named_source(source)
    if allow_train and isinstance(found, ImportedSource):
        # Measured by default are the rows that are not for training, if there are any.
        return [found.model_copy(update={"role": role}) for role in _roles_in(path)]
    return [found]


def _roles_in(folder: Path) -> list[Role]:
    from assay_trainer.data.governance.manifest import read_manifest

    return [role for role, number in read_manifest(folder).roles.items() if number]


def _tasks(source: Source, data_folder: Path | None) -> list[Task]:
    return open_dataset(source, DatasetPurpose.EVALUATE, data_folder).tasks


def _part(tasks: list[Task], limit: int | None, seed: int) -> list[Task]:
    """Return `limit` random tasks in their order, the same for the same seed."""
    if limit is None or limit >= len(tasks):
        return tasks
    places = random.Random(f"{seed}/part of a set").sample(range(len(tasks)), limit)
    return [tasks[place] for place in sorted(places)]


def digest_of(tasks: Sequence[Task]) -> str:
    """Return the SHA-256 of tasks in their order."""
    whole = hashlib.sha256()
    for task in tasks:
        whole.update(task.model_dump_json().encode() + b"\n")
    return whole.hexdigest()


def asked(task: Task, protocol: Protocol) -> Task:
    """Return a task as the policy gets it: in the protocol's format, after its system message."""
    if protocol.prompt_format is not None:
        task = task.model_copy(update={"prompt_format": protocol.prompt_format})
    if protocol.kind is ProtocolKind.REPAIR and task.tests:
        task = task.model_copy(update={"environment": _rounds(protocol)})
    if protocol.system is not None:
        rest = [said for said in task.history if said.role != "system"]
        first = Message(role="system", content=protocol.system)
        task = task.model_copy(update={"history": (first, *rest)})
    return task


def _rounds(protocol: Protocol) -> EnvironmentTask:
    """Return the environment that answers a program with feedback on its tests."""
    assert protocol.rounds is not None
    given = {
        "visible_tests": protocol.visible_tests,
        "feedback_tokens": protocol.feedback_tokens,
    }
    instance: dict[str, JsonValue] = {name: one for name, one in given.items() if one is not None}
    return EnvironmentTask(name="code_repair", instance=instance, max_turns=protocol.rounds)


def check_sets(sets: Sequence[OpenSet], protocol: Protocol) -> None:
    """Refuse what a protocol cannot do with a set, by name.

    Raises:
        InvalidInput: a setting does not reach the prompts of a set, or a set has no options.
    """
    for one in sets:
        for task in one.tasks:
            _check(one.name, task, protocol)
        if protocol.kind is ProtocolKind.REPAIR and not any(task.tests for task in one.tasks):
            raise InvalidInput(
                f"no task of {one.name} has tests of a program, which repair needs",
                field="protocol.kind",
            )


def check_names(numbers: Mapping[str, int], sets: Sequence[OpenSet]) -> None:
    """Refuse QA numbers of a set that is not there; the empty name stands for all sets.

    Raises:
        InvalidInput: names that set, and those that there are.
    """
    known = [one.name for one in sets]
    for name in numbers:
        if name and name not in known:
            raise InvalidInput(
                f"there is no set {name!r}: there are {', '.join(known)}", field="--qa-per-outcome"
            )


def check_server_reads(sets: Sequence[OpenSet], protocol: Protocol) -> None:
    """Refuse options in chats: a server echoes no chat.

    Raises:
        InvalidInput: a task is a chat, and the protocol `likelihood`.
    """
    if protocol.kind is not ProtocolKind.LIKELIHOOD:
        return
    for one in sets:
        for task in one.tasks:
            if (protocol.prompt_format or task.prompt_format) is not PromptFormat.RAW:
                raise InvalidInput(
                    f"{task.id} of {one.name} is a chat, and a server reads options of raw prompts",
                    field="protocol.prompt_format",
                    hint="--prompt-format raw",
                )


def _check(name: str, task: Task, protocol: Protocol) -> None:
    is_raw = (protocol.prompt_format or task.prompt_format) is PromptFormat.RAW
    for setting in ("system", "template_arguments"):
        if is_raw and getattr(protocol, setting):
            raise InvalidInput(
                f"{task.id} of {name} has a raw prompt, which takes no {setting}",
                field=f"protocol.{setting}",
                hint="--prompt-format chat sends all prompts through the chat template",
            )
    if is_raw and task.history:
        raise InvalidInput(
            f"{task.id} of {name} has messages before its prompt", field="protocol.prompt_format"
        )
    if protocol.kind is ProtocolKind.REPAIR:
        _check_repair(name, task, is_raw=is_raw)
    elif task.environment is None:
        if protocol.kind is ProtocolKind.LIKELIHOOD and "choice" not in task.checks:
            raise InvalidInput(
                f"{task.id} of {name} has no options to choose from",
                field="protocol.kind",
                hint="likelihood needs tasks with checks.choice, such as those of mmlu and arc",
            )
    elif protocol.kind in (ProtocolKind.LIKELIHOOD, ProtocolKind.MAJORITY) or is_raw:
        raise InvalidInput(
            f"{task.id} of {name} is an episode: greedy, sampled and budget play them, as chats",
            field="protocol.kind",
        )


def _check_repair(name: str, task: Task, *, is_raw: bool) -> None:
    """Refuse episodes, and programs in a raw prompt."""
    if task.environment is not None:
        raise InvalidInput(f"{task.id} of {name} is an episode already", field="protocol.kind")
    if is_raw and task.tests:
        raise InvalidInput(
            f"{task.id} of {name} has a raw prompt, and feedback is a message of a chat",
            field="protocol.prompt_format",
            hint="--prompt-format chat",
        )
