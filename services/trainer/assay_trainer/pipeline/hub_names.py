"""The hub's names in a run file: pinned to commits, and downloaded before anything else is done."""

import json
from pathlib import Path

from transformers import CONFIG_MAPPING

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import write_json
from assay_trainer.config import RunConfig
from assay_trainer.data.hub_files import split_files
from assay_trainer.hub import Report, Repository, download, list_files, model_files, resolve
from assay_trainer.learner import checkpoint
from assay_trainer.pipeline.context import RunContext
from assay_trainer.table_source import HubFiles

_MB = 10**6
#: Progress is recorded after this number of megabytes.
_EVERY_MB = 10
#: Where the run file names data: section and key.
_SOURCES = (("data", "train"), ("data", "held_out"), ("data", "demonstrations"), ("dpo", "data"))


def fetch_hub_names(run: RunContext) -> None:
    """Pin every name of a hub in the run file to its commit, and download what the run reads.

    The commits go into the run's config.json: a resumed run reads the same ones.

    Raises:
        Stopped: a stop was requested.
        AssayError: a name, a revision or a split is unknown, gated, or cannot be reached.
    """
    sources = [source for _, source in _hub_sources(run.config)]
    if run.config.policy.hub is None and not sources:
        return
    with run.stage("download"):
        _pin(run)
        wanted = _wanted(run)
        total = sum(sum(files.values()) for _, files in wanted)
        run.set_status(num_steps=-(-total // _MB))
        before = 0
        for repository, files in wanted:
            download(repository, list(files), _report(run, before))
            before += sum(files.values())


def download_policy(name: str, revision: str | None) -> Path:
    """Return the folder of a hub's model: weights in safetensors, configuration, tokenizer.

    Raises:
        InvalidInput: it has no such weights, or needs its own code.
        AssayError: see `assay_trainer.hub.resolve`.
    """
    repository = resolve("model", name, revision)
    return download(repository, list(_model_files(repository)))


def _model_files(repository: Repository) -> dict[str, int]:
    """Return the sizes in bytes of the files that a model is loaded from, by path.

    Raises:
        InvalidInput: see `download_policy`.
    """
    sizes = list_files(repository)
    files = {name: sizes[name] for name in model_files(list(sizes), repository)}
    if "config.json" not in files:
        raise InvalidInput(f"{repository} has no config.json", field="policy.hub")
    text = (download(repository, ["config.json"]) / "config.json").read_text()
    kind = json.loads(text).get("model_type")
    if kind not in CONFIG_MAPPING:
        raise InvalidInput(
            f"{repository} has the model type {kind}, which transformers does not know; code from "
            "a hub is never run",
            field="policy.hub",
        )
    return files


def _hub_sources(config: RunConfig) -> list[tuple[tuple[str, str], HubFiles]]:
    found = [
        ((section, key), getattr(getattr(config, section), key, None)) for section, key in _SOURCES
    ]
    return [(place, source) for place, source in found if isinstance(source, HubFiles)]


def _pin(run: RunContext) -> None:
    """Write the commits of all names into the run's configuration, and record them."""
    config, pinned = run.config, []
    if config.policy.hub is not None:
        pinned.append(resolve("model", config.policy.hub, config.policy.revision))
        policy = config.policy.model_copy(update={"revision": pinned[-1].revision})
        config = config.model_copy(update={"policy": policy})
    for (section, key), source in _hub_sources(config):
        pinned.append(resolve("dataset", source.name, source.revision))
        source = source.model_copy(update={"revision": pinned[-1].revision})
        changed = getattr(config, section).model_copy(update={key: source})
        config = config.model_copy(update={section: changed})
    if config != run.config:
        record = run.folder.read_config()
        write_json(run.folder.config, record | {"config": config.model_dump(mode="json")})
        run.config = config
        for one in pinned:
            run.record("hub_pinned", repository=one.kind, name=one.name, revision=one.revision)


def _wanted(run: RunContext) -> list[tuple[Repository, dict[str, int]]]:
    """Return the repositories that the run reads, each with its files' sizes by path."""
    wanted = []
    policy = run.config.policy
    if policy.hub is not None and not checkpoint.is_sealed(run.folder.path / "models" / "initial"):
        model = resolve("model", policy.hub, policy.revision)
        wanted.append((model, _model_files(model)))
    for _, source in _hub_sources(run.config):
        dataset = resolve("dataset", source.name, source.revision)
        wanted.append((dataset, split_files(source, dataset)))
    return wanted


def _report(run: RunContext, before: int) -> Report:
    """Return a function to record progress in megabytes, after `before` bytes of others."""
    last = before // _MB

    def report(done: int, _: int) -> None:
        nonlocal last
        run.stop.check()
        now = (before + done) // _MB
        if now - last >= _EVERY_MB:
            last = now - now % _EVERY_MB
            run.record("progress", stage="download", done=last)
            run.set_status(step=last)

    return report
