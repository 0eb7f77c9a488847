"""The facts of a run, as its folder has them."""

from collections.abc import Iterator
from pathlib import Path

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.data.governance.manifest import MANIFEST, read_manifest
from assay_trainer.handoff.manifest import DataFacts, RunFacts

#: Events with a step, and the stage that they belong to.
_STEPS = {"sft_step": "sft", "dpo_step": "dpo", "step": "grpo"}
_TELLING = ("assay-rl", "torch", "transformers", "trl", "peft", "datasets", "accelerate")


def run_facts(folder: Path) -> RunFacts:
    """Return the configuration, the origin and the steps of a run."""
    run = RunFolder.open(folder)
    written = run.read_config()
    packages: dict[str, str] = written.get("packages") or {}
    steps: dict[str, int] = {}
    for event in run.read_events():
        number = event.data.get("step")
        if event.kind in _STEPS and isinstance(number, int):
            steps[_STEPS[event.kind]] = number
    return RunFacts(
        name=folder.resolve().name,
        state=run.read_status_or_damage().state,
        git_commit=written.get("git_commit"),
        config=written["config"],
        steps=steps,
        packages={name: packages[name] for name in _TELLING if name in packages},
        data=tuple(_data(written["config"])),
    )


def _data(config: object) -> Iterator[DataFacts]:
    """Yield the imported sets that a configuration names and that are still there."""
    for path in sorted(set(_paths(config))):
        folder = Path(path)
        folder = folder if folder.is_dir() else folder.parent
        if not (folder / MANIFEST).is_file():
            continue
        try:
            one = read_manifest(folder)
        except DatasetError:
            continue  # a manifest of something else
        yield DataFacts(
            path=str(folder),
            source=one.source,
            revision=one.revision,
            licence=one.licence,
            digest=one.digest,
            count=one.count,
        )


def _paths(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "path" and isinstance(inner, str):
                yield inner
            else:
                yield from _paths(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner)
