"""Instructions as the command asks for them: read, serve, make, write."""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assay_shared.errors import Conflict, DatasetError, InvalidInput
from assay_shared.runs.own_folder import check_own_folder
from assay_shared.runs.run_folder import write_atomically
from assay_shared.runs.run_lock import held
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.settings.environment import ServiceSettings
from assay_shared.settings.run_file import load_config
from assay_shared.types import PromptFormat, Task
from assay_shared.types.wire import Wire
from assay_trainer.data.dataset import DatasetPurpose, named_source, open_dataset
from assay_trainer.data.governance.manifest import (
    MANIFEST,
    ImportManifest,
    digest_of,
    read_manifest,
)
from assay_trainer.data.governance.sources import refuse_deprecated
from assay_trainer.demonstrations.instructions.given.constitution import read_constitution
from assay_trainer.demonstrations.instructions.given.instructions_config import InstructionsConfig
from assay_trainer.demonstrations.instructions.given.seeds import Seeds, read_seeds
from assay_trainer.demonstrations.instructions.making import Given, Making
from assay_trainer.demonstrations.instructions.screening.filters import Filters, told_tokens
from assay_trainer.demonstrations.instructions.screening.leaks import HeldOutPrompts
from assay_trainer.demonstrations.instructions.writing import (
    SAMPLE_PAGE,
    Made,
    write_made,
    write_sample,
)
from assay_trainer.evaluate.answers import sources
from assay_trainer.evaluate.answers.sources import Source
from assay_trainer.evaluate.policy.checkpoints import servable_folder
from assay_trainer.evaluate.policy.places import find_policies
from assay_trainer.evaluate.policy.services import check_rubrics, own_services, with_reward
from assay_trainer.evaluate.policy.serving import ServeBy, served
from assay_trainer.evaluation.records.evaluation_record import EvaluatedPolicy
from assay_trainer.evaluation.records.protocol import Protocol
from assay_trainer.verification.model_tokens import ModelTokens, read_tokens

_INPUTS = "inputs.json"


@dataclass(frozen=True)
class InstructionsOrder:
    """The options of the command."""

    file: Path
    output: Path
    overrides: tuple[str, ...] = ()
    policy: str | None = None
    #: Held-out sets, as well as those of the file.
    against: tuple[Path, ...] = ()
    serve: str = ServeBy.AUTO
    concurrency: int = 32
    max_failed: int = 32
    skip_failed: bool = False


class InstructionsInputs(Wire):
    """inputs.json: a folder with other inputs is not resumed."""

    policy: EvaluatedPolicy
    config: dict[str, JsonValue]
    #: SHA-256 of each file that the configuration names.
    files: dict[str, str]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all of them."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def make_instructions(
    order: InstructionsOrder, settings: ServiceSettings, console: Console
) -> ImportManifest:
    """Make the rows that the folder does not have yet, and return its manifest.

    Raises:
        AssayError: an input cannot be used, or something is down; stored replies stay.
    """
    config = _config(order)
    check_own_folder(
        order.output,
        _INPUTS,
        "no instructions",
        "name a new or an empty folder, or one to continue",
    )
    order.output.mkdir(parents=True, exist_ok=True)
    with held(order.output), ExitStack() as stack:
        folder, policy = _policy(config, stack)
        tokens = None if folder is None else read_tokens(folder)
        given = _given(config, policy, tokens, order.output, settings)
        if (order.output / MANIFEST).exists():
            return _done(order.output, config)
        if config.scoring is not None:
            settings = _reward(given, settings, stack, console)
        for title, seed in given.seeds.left_out[:3]:
            console.print(f"seed in line {title} is left out: {seed}", markup=False)
        with _source(folder, policy, config, order, settings) as (opening, own):
            made = _make(given, opening, order, own, console)
        return write_made(made, config, order.output)


def _config(order: InstructionsOrder) -> InstructionsConfig:
    """Return the file's configuration, with the policy of the command in its place."""
    config = load_config(InstructionsConfig, order.file, order.overrides)
    config = config.from_folder(order.file.parent)
    config = config.model_copy(update={"against": (*config.against, *order.against)})
    if missing := [one for one in config.against if not one.exists()]:
        raise DatasetError(f"there is no held-out set {missing[0]}", field="against")
    if order.policy is not None:
        config = config.model_copy(update={"policy": order.policy, "server": None})
    if config.policy is None and config.server is None:
        raise InvalidInput(
            "which model? Give policy or server in the file, or --policy", field="policy"
        )
    return config


def _policy(config: InstructionsConfig, stack: ExitStack) -> tuple[Path | None, EvaluatedPolicy]:
    """Return the folder of the policy, which is null of a server, and what is stored of it."""
    if config.policy is None:
        assert config.server is not None
        name = " ".join(filter(None, (config.server.url, config.server.model)))
        return None, EvaluatedPolicy(kind="server", name=name)
    (place,) = find_policies(config.policy, None)
    scratch = stack.enter_context(TemporaryFolder("assay-policy-"))
    folder = servable_folder(place, scratch)
    return folder, place.facts(folder)


def _given(
    config: InstructionsConfig,
    policy: EvaluatedPolicy,
    tokens: ModelTokens | None,
    output: Path,
    settings: ServiceSettings,
) -> Given:
    """Read and store all given inputs.

    Raises:
        Conflict: the folder was begun with something else.
        DatasetError: a file cannot be used.
    """
    constitution = None
    if config.revision is not None:
        constitution = read_constitution(config.revision.constitution)
    filters = Filters(config.filters, told_tokens(tokens.control.values() if tokens else ()))
    held_out = HeldOutPrompts(config.against, config.filters.similarity, settings.data)
    seeds = _seeds(config, filters, held_out, settings)
    tasks = [task for path in config.tasks for task in _tasks(path, settings.data)]
    _check_ids(tasks)
    inputs = InstructionsInputs(
        policy=policy,
        config=config.model_dump(mode="json", exclude=_PATHS),
        files=dict(sorted(_files(config))),
    )
    _begin(output, inputs)
    return Given(
        config, seeds, tasks, constitution, filters, held_out, tokens, policy, inputs.digest
    )


def _seeds(
    config: InstructionsConfig, filters: Filters, held_out: HeldOutPrompts, own: ServiceSettings
) -> Seeds:
    if config.seeds is None:
        return Seeds((), ())
    refuse_deprecated([], own.data, [config.seeds])

    def refusal(instruction: str, response: str | None) -> str | None:
        for text in filter(None, (instruction, response)):
            if reason := filters.of_any(text):
                return reason
        leak = held_out.reason(instruction, response or "")
        return f"{leak[0]}: a prompt of {leak[1]}" if leak else None

    return read_seeds(config.seeds, refusal)


def _tasks(path: Path, data_folder: Path | None) -> list[Task]:
    """Return the tasks for training of a folder or a file, as they can be answered."""
    found = open_dataset(named_source(str(path)), DatasetPurpose.TRAIN, data_folder).tasks
    for task in found:
        if task.environment is not None or task.prompt_format is PromptFormat.RAW:
            what = "an episode" if task.environment is not None else "a raw prompt"
            raise DatasetError(f"{task.id} of {path} is {what}: only chats are answered")
    return found


def _check_ids(tasks: Sequence[Task]) -> None:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise DatasetError(f"two of the tasks have the id {task.id}", field="tasks")
        seen.add(task.id)


def _files(config: InstructionsConfig) -> Iterator[tuple[str, str]]:
    """Yield the SHA-256 of each file that decides the result, by the key that names it."""
    named = [("seeds", config.seeds)]
    for key, paths in (("tasks", config.tasks), ("against", config.against)):
        named += [(f"{key}.{at}", path) for at, path in enumerate(paths)]
    if config.revision is not None:
        named.append(("revision.constitution", config.revision.constitution))
    for key, path in named:
        if path is not None:
            yield key, digest_of(path) if path.is_file() else _digest_of_folder(path)


def _digest_of_folder(path: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted([*path.glob("*.jsonl"), *path.glob("*/*.jsonl")]):
        whole.update(f"{file.relative_to(path)} {digest_of(file)}\n".encode())
    return whole.hexdigest()


#: These are known by what is in them, wherever they lie.
_PATHS: Any = {
    "policy": True,
    "seeds": True,
    "tasks": True,
    "against": True,
    "revision": {"constitution": True},
}


def _begin(output: Path, inputs: InstructionsInputs) -> None:
    """Store the inputs, or check that the folder has the same.

    Raises:
        Conflict: it has others; names them.
    """
    file = output / _INPUTS
    if not file.exists():
        write_atomically(file, inputs.model_dump_json(indent=1) + "\n")
        return
    stored = InstructionsInputs.model_validate_json(file.read_bytes())
    if (stored.policy.digest, stored.policy.kind) != (inputs.policy.digest, inputs.policy.kind):
        what = f"by another policy, {stored.policy.name}"
    elif stored.files != inputs.files:
        names = [one for one, digest in inputs.files.items() if stored.files.get(one) != digest]
        what = f"with another {', '.join(names) or 'set of files'}"
    elif stored.config != inputs.config:
        names = [one for one in inputs.config if stored.config.get(one) != inputs.config[one]]
        what = f"with another {', '.join(names)}"
    else:
        return
    raise Conflict(f"{output} was begun {what}", field="--output", hint="name a new folder")


def _done(output: Path, config: InstructionsConfig) -> ImportManifest:
    """Return the manifest of a folder that is whole; its sample is written again if need be."""
    if not (output / SAMPLE_PAGE).exists():
        write_sample(output, config.seed)
    return read_manifest(output)


def _reward(
    given: Given, settings: ServiceSettings, stack: ExitStack, console: Console
) -> ServiceSettings:
    """Return settings with a reward service that has the rubrics."""
    assert given.config.scoring is not None
    settings, started = with_reward(stack.enter_context(own_services()), settings)
    if started:
        console.print(f"[dim]started for this command: {', '.join(started)}[/]")
    rubric = given.config.scoring.rubric
    new = [Task(id="a new instruction", prompt="?", rubric=rubric)]
    invented = new if given.config.invention.wanted else []
    check_rubrics({"task.rubric": [*invented, *given.tasks]}, settings)
    return settings


@contextmanager
def _source(
    folder: Path | None,
    policy: EvaluatedPolicy,
    config: InstructionsConfig,
    order: InstructionsOrder,
    settings: ServiceSettings,
) -> Iterator[tuple[AbstractAsyncContextManager[Source], ServiceSettings]]:
    """Yield the opening of the source of answers, and settings with its address."""
    if folder is None:
        server = config.server
        assert server is not None
        opening = sources.of_server(
            server.url, server.model, server.key_variable, Protocol(), server.timeout_s
        )
        yield opening, settings
        return
    with served(folder, str(policy.digest), ServeBy(order.serve), settings) as (own, version):
        yield sources.of_service(own, version, Protocol()), own


def _make(
    given: Given,
    opening: AbstractAsyncContextManager[Source],
    order: InstructionsOrder,
    settings: ServiceSettings,
    console: Console,
) -> Made:
    """Make all rows, with a bar for each kind of work."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        named = {}

        def show(title: str, num_done: int, num_all: int) -> None:
            if title not in named:
                named[title] = bars.add_task(title, total=num_all)
            bars.update(named[title], completed=num_done, total=num_all)

        making = Making(
            given,
            order.output,
            settings,
            order.concurrency,
            order.max_failed,
            show,
            order.skip_failed,
        )

        async def run() -> Made:
            async with opening as source:
                return await making.make(source)

        return asyncio.run(run())
