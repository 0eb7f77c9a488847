"""A new run's files: everything is checked first, then written."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from assay_shared.errors import ConfigError, Conflict, InvalidInput
from assay_shared.runs.run_folder import write_atomically
from assay_shared.settings.key_file import write_secret
from assay_shared.settings.run_file import parse_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.network.memory import num_trained
from assay_trainer.learner.throughput import num_multiplied
from assay_trainer.pipeline.plan import Plan
from assay_trainer.pipeline.plan_rules import check_memory, check_settings
from assay_trainer.pipeline.plan_stages import fullest_stage, grpo_stage, process_bytes
from assay_trainer.start.cards import CardSet
from assay_trainer.start.env_file import compose_variables, env_text, service_variables
from assay_trainer.start.layout import GpuLayout, plan_layout
from assay_trainer.start.run_file import answer_tokens, run_text
from assay_trainer.start.sized_model import SizedModel, size_model
from assay_trainer.start.task_data import DataOptions, TaskData, files_of, task_data

RUN_FILE, ENV_FILE = "run.yaml", ".env"
_IN_CONTAINER = Path("/var/lib/assay")


@dataclass(frozen=True)
class InitOptions:
    """The options of a new run. Without `model` and `data`, only .env is made."""

    folder: Path
    cards: CardSet
    model: str | None = None
    data: DataOptions | None = None
    lora: bool | None = None
    compose: bool = False
    force: bool = False


@dataclass(frozen=True)
class NewRun:
    """The written files, the plan, sentences for people, and the next commands."""

    files: list[Path]
    plan: Plan | None
    told: list[str]
    commands: list[str]


def make(options: InitOptions, tell: Callable[[str], None] = lambda _: None) -> NewRun:
    """Write a run file and .env, or .env alone; `tell` gets each part that may take long.

    Raises:
        AssayError: an option, the folder or the GPUs cannot be used; nothing is written then.
    """
    _check_encoding(options)
    check_folder_is_free(options)
    told = [f"GPUs: {options.cards.told}"]
    if options.model is None or options.data is None:
        return _environment_alone(options, told)
    tell(f"read the sizes of {options.model}")
    model = size_model(options.model)
    tell(f"check the rows of {options.data.data}")
    data = task_data(options.data, options.folder)
    tell("plan memory and GPUs")
    most = answer_tokens(model, data)
    layout = plan_layout(model, options.cards, most, options.lora, one_trainer=options.compose)
    told += [
        f"model: {model.name}, {model.size_told} weights ({model.known_by})",
        f"data: {data.told}; rubric {data.rubric}",
        *_layout_told(layout),
    ]
    policy, placed, copies = _places(options, model, data)
    text = run_text(_name(options.folder), policy, model, placed, layout)
    config = parse_config(RunConfig, yaml.safe_load(text), source=RUN_FILE)
    plan = _plan(config, model, layout, options.cards)
    variables = service_variables(layout)
    if options.compose:
        variables = compose_variables(options.cards, layout) | _compose_places(options, model)
    elif options.cards.number and "ASSAY_INFERENCE_ENGINE" not in variables:
        told.append(
            "engine: transformers on its first GPU, as no vLLM is here: "
            "ASSAY_INFERENCE_VLLM_PYTHON names one (docs/inference_engines.md)"
        )
    files = _write(options, text, env_text(variables, options.cards.told), data, copies)
    return NewRun(files, plan, told, list(_commands(options, model, layout)))


def _check_encoding(options: InitOptions) -> None:
    """Check that names of files can stand in a run file, which is UTF-8."""
    data = options.data
    given = {"FOLDER": options.folder.absolute(), "--model": options.model}
    if data is not None:
        given |= {"--data": data.data, "--held-out": data.held_out, "--data-config": data.config}
    for field, value in given.items():
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                f"{str(value)!a:.300} is not UTF-8, as a run file is; rename it", field=field
            ) from None


def check_folder_is_free(options: InitOptions) -> None:
    """Check that the files can be written to the folder.

    Raises:
        Conflict: the folder has other files, or one to be replaced.
        InvalidInput: it is not a folder, or cannot be written to.
    """
    folder = options.folder
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder", field="FOLDER")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InvalidInput(
            f"{there} cannot be written to by this user", field="FOLDER", hint="name another folder"
        )
    names = [ENV_FILE] if options.model is None else [ENV_FILE, RUN_FILE]
    taken = [name for name in names if (folder / name).exists()]
    if taken and not options.force:
        raise Conflict(f"{folder / taken[0]} exists", field="FOLDER", hint="--force replaces it")
    is_here = folder.resolve() == Path.cwd().resolve() or options.compose
    if folder.exists() and any(folder.iterdir()) and not is_here and not options.force:
        raise Conflict(
            f"{folder} exists and is not empty",
            field="FOLDER",
            hint="name a new folder; --force adds to it",
        )


def _environment_alone(options: InitOptions, told: list[str]) -> NewRun:
    if not options.compose:
        field = "--model" if options.model is None else "--data"
        raise InvalidInput(
            "is needed: a folder or file, or the name of a hub",
            field=field,
            hint="on a terminal, `assay init` asks for it",
        )
    if options.model is not None or options.data is not None:
        raise InvalidInput("--model and --data go together", field="--model")
    text = env_text(compose_variables(options.cards, None), options.cards.told)
    _make_folder(options.folder)
    write_secret(options.folder / ENV_FILE, text)
    return NewRun([options.folder / ENV_FILE], None, told, [_compose_up(options)])


def _name(folder: Path) -> str:
    """Return a run's name by the folder."""
    found = "".join(
        one if one.isalnum() and one.isascii() else "-" for one in folder.resolve().name
    )
    return found.strip("-")[:40] or "run"


def _layout_told(layout: GpuLayout) -> Iterator[str]:
    yield f"trains: {layout.trainer.told}"
    if not layout.engine_gpus:
        return
    engines = ", ".join(map(str, layout.engine_gpus))
    parallel = f", tensor parallel over {layout.tensor_parallel}" * (layout.tensor_parallel > 1)
    yield (
        f"engine: GPU {engines}{parallel}, {layout.utilisation:.0%} of its memory; trainer: GPU "
        f"{', '.join(map(str, layout.trainer_gpus))}"
    )


def _places(
    options: InitOptions, model: SizedModel, data: TaskData
) -> tuple[dict[str, str], TaskData, dict[str, Path]]:
    """Return policy and data as the trainer sees them, and files to copy by their new names."""
    if not options.compose:
        key = "hub" if model.is_hub else "folder"
        return {key: model.name}, data, {}
    folder = _IN_CONTAINER / "models" / Path(model.name).name
    train, first = _in_container(data.train, "train")
    held_out, second = _in_container(data.held_out, "held_out")
    placed = replace(data, train=train, held_out=held_out)
    copies = {} if data.files else first | second
    return {"folder": str(folder)}, placed, copies


def _in_container(source: dict[str, Any], name: str) -> tuple[dict[str, Any], dict[str, Path]]:
    if source["kind"] == "hub":
        raise ConfigError(
            "containers cannot reach a hub",
            field="--data",
            hint="download the dataset, and name a file",
        )
    path = Path(source["path"])
    copied = f"{name}{''.join(path.suffixes[-2:] if path.suffix == '.gz' else path.suffixes[-1:])}"
    return source | {"path": str(_IN_CONTAINER / "data" / copied)}, {copied: path}


def _compose_places(options: InitOptions, model: SizedModel) -> dict[str, str]:
    home = options.folder.resolve()
    models = home / "models" if model.is_hub else Path(model.name).parent
    return {
        "ASSAY_CONFIGS": str(home),
        "ASSAY_RUN_FILE": RUN_FILE,
        "ASSAY_DATA": str(home / "data"),
        "ASSAY_MODELS": str(models),
    }


def _plan(config: RunConfig, model: SizedModel, layout: GpuLayout, cards: CardSet) -> Plan:
    """Return the part of `assay train --plan` without services."""
    assert config.grpo is not None
    on_gpu, lora = bool(cards.number), config.policy.lora
    num_cards = max(1, len(layout.trainer_gpus))
    stage = grpo_stage(config.grpo, lora, model.model, num_cards, on_gpu=on_gpu)
    card = cards.memory if on_gpu else None
    memory = fullest_stage([stage], num_cards, card, process_bytes())
    findings = check_settings(config)
    if memory is not None:
        findings += check_memory(memory.estimated_total, card)
    return Plan(
        run=config.name,
        num_weights=model.num_weights,
        num_trained=num_trained(model.model, lora),
        num_multiplied=num_multiplied(model.model),
        memory=memory,
        stages=[stage],
        findings=findings,
    )


def _write(
    options: InitOptions, run: str, env: str, data: TaskData, copies: dict[str, Path]
) -> list[Path]:
    """Write all files; return their paths."""
    folder = options.folder
    _make_folder(folder)
    found = []
    if data.files or copies:
        _make_folder(folder / "data")
    for name, text in files_of(data):
        write_atomically(folder / "data" / name, text)
        found.append(folder / "data" / name)
    for name, path in copies.items():
        shutil.copyfile(path, folder / "data" / name)
        found.append(folder / "data" / name)
    write_atomically(folder / RUN_FILE, run)
    write_secret(folder / ENV_FILE, env)
    return [*found, folder / RUN_FILE, folder / ENV_FILE]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be made: {error.strerror}", field="FOLDER") from None


def _commands(options: InitOptions, model: SizedModel, layout: GpuLayout) -> Iterator[str]:
    """Yield the next commands."""
    folder = options.folder
    if options.compose:
        if model.is_hub:
            target = folder / "models" / Path(model.name).name
            yield f"hf download {model.name} --local-dir {target}"
        yield _compose_up(options)
        return
    variables = f"set -a; . {folder.resolve() / ENV_FILE}; set +a"
    gpus = ",".join(map(str, layout.trainer_gpus))
    chosen = f" --gpus {gpus}" if gpus else ""
    assay = _program()
    yield f"{variables}; {assay} up"
    yield f"{variables}; {assay} train {folder / RUN_FILE}{chosen} --plan   # in another shell"
    yield f"{variables}; {assay} train {folder / RUN_FILE}{chosen}"


def _program() -> str:
    """Return `assay` as a shell finds it: by its name, or by the path of this environment."""
    own = Path(sys.executable).with_name("assay")
    is_found = shutil.which("assay") is not None or not own.exists()
    return "assay" if is_found else str(own)


def _compose_up(options: InitOptions) -> str:
    file = (
        ""
        if (options.folder / "docker-compose.yml").exists()
        else (f" --env-file {options.folder / ENV_FILE}")
    )
    profile = " --profile gpu" if options.cards.number else ""
    return f"docker compose{file}{profile} up"
