"""The command lines of a stage, and the policy that a stage leaves."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from assay_shared.errors import InvalidInput, NotFound
from assay_shared.runs.run_folder import RunFolder, write_json
from assay_shared.settings.run_file import from_home, read_yaml
from assay_trainer.evaluate.policy.places import STAGES
from assay_trainer.pipelines.placeholders import STAGE, filled, filled_value
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import (
    AblateStage,
    AnyStage,
    CommandStage,
    CompareStage,
    HandoffStage,
    MeasuringStage,
    OptionValue,
    PairsStage,
    RejectionStage,
    RepairStage,
    ReportStage,
    SFTDataStage,
    TrainStage,
    VerifyStage,
)

#: A longer text in a file names no other file.
_LONGEST_NAME = 500


@dataclass(frozen=True)
class StagePlaces:
    """Where a stage finds what it names: files from the pipeline's folder, and other stages."""

    files: Path
    stages: Mapping[str, StageFolder]
    #: The pipeline's own folder.
    pipeline: Path = Path()

    @property
    def folders(self) -> dict[str, str]:
        """The folder of each stage."""
        return {name: str(stage.output) for name, stage in self.stages.items()}

    def file(self, given: str | Path) -> str:
        """Return a path from the pipeline file's folder; a text that names nothing there as is."""
        beside = self.files / given
        return str(beside.resolve()) if beside.exists() else str(given)

    def filled(self, word: str, own: StageFolder) -> str:
        """Return a word with the folders in the place of {folder} and {stage:NAME}."""
        return filled(word, self.folders, str(own.output))

    def policy(self, given: str) -> str:
        """Return what `assay evaluate` and `assay handoff` take as a policy."""
        if given.startswith(STAGE):
            return str(self.stages[given.removeprefix(STAGE)].output)
        return self.file(given)


def input_files(stage: AnyStage, places: StagePlaces) -> list[Path]:
    """Return the files and folders of the pipeline's author that decide a stage's result."""
    named: list[str | Path] = []
    if isinstance(stage, TrainStage):
        named = [stage.run]
    elif isinstance(stage, SFTDataStage):
        named = [stage.file, *_files_named_in(stage.file, places)]
    elif isinstance(stage, AblateStage):
        named = [stage.file, *_base_of(stage, places)]
    elif isinstance(stage, CompareStage) and stage.expect is not None:
        named = [stage.expect]
    elif isinstance(stage, VerifyStage) and stage.prompts is not None:
        named = [stage.prompts]
    elif isinstance(stage, CommandStage):
        named = list(stage.inputs)
    elif isinstance(stage, MeasuringStage):
        named = [one for one in stage.sets.values() if (places.files / one).exists()]
    named += _files_of_options(stage, places)
    found = [places.files / one for one in named]
    if missing := [one for one in found if not one.exists()]:
        raise NotFound(
            f"there is no {missing[0]}", hint="paths are from the pipeline file's folder"
        )
    return found


def prepare(stage: AnyStage, own: StageFolder, places: StagePlaces) -> list[str]:
    """Return the words after `assay` that do a stage or resume it.

    What cannot be resumed is deleted from the stage's own folder.
    """
    own.path.mkdir(parents=True, exist_ok=True)
    words = next(words for kind, words in _COMMANDS if isinstance(stage, kind))
    return words(stage, own, places)


def is_finished(stage: AnyStage, own: StageFolder) -> bool:
    """Return True if the command has ended well, although nobody wrote it down."""
    run = RunFolder(own.output)
    if not isinstance(stage, TrainStage) or not run.config.exists():
        return False
    return run.read_status().state == "finished"


def train_changes(stage: TrainStage, places: StagePlaces) -> list[str]:
    """Return the overrides of a stage's run, with other stages' folders and its policy."""
    changes = _changes(stage.overrides, places)
    return changes if stage.policy is None else changes + _policy_of_run(stage.policy, places)


def _train(stage: TrainStage, own: StageFolder, places: StagePlaces) -> list[str]:
    if RunFolder(own.output).config.exists():
        return ["train", "--resume", str(own.output)]
    shutil.rmtree(own.output, ignore_errors=True)
    changes = train_changes(stage, places)
    return ["train", places.file(stage.run), *changes, "--folder", str(own.output)]


def _ablate(stage: AblateStage, own: StageFolder, places: StagePlaces) -> list[str]:
    if (own.output / "ablation.json").exists():
        return ["ablate", "--resume", str(own.output)]
    shutil.rmtree(own.output, ignore_errors=True)
    file, folder = places.file(stage.file), str(own.output)
    return ["ablate", file, *_changes(stage.overrides, places), "--folder", folder]


def _changes(overrides: Mapping[str, JsonValue], places: StagePlaces) -> list[str]:
    folders = places.folders
    return [f"{key}={json.dumps(filled_value(one, folders))}" for key, one in overrides.items()]


def _verify(stage: VerifyStage, own: StageFolder, places: StagePlaces) -> list[str]:
    words = ["verify", places.policy(stage.policy), "--output", str(own.output)]
    words += ["--per-kind", str(stage.per_kind), "--max-tokens", str(stage.max_tokens)]
    return words if stage.prompts is None else [*words, "--prompts", places.file(stage.prompts)]


def _policy_of_run(given: str, places: StagePlaces) -> list[str]:
    if given.startswith(STAGE):
        folder = last_model(places.stages[given.removeprefix(STAGE)].output)
        return ["policy.new=null", "policy.hub=null", f"policy.folder={folder}"]
    if (places.files / given).exists() or Path(given).is_absolute():
        return ["policy.new=null", "policy.hub=null", f"policy.folder={places.file(given)}"]
    name, _, revision = given.partition("@")
    hub = ["policy.new=null", "policy.folder=null", f"policy.hub={name}"]
    return [*hub, f"policy.revision={revision}"] if revision else hub


def _evaluate(stage: MeasuringStage, own: StageFolder, places: StagePlaces) -> list[str]:
    protocol = own.path / "protocol.yaml"
    kind = {"kind": "repair"} if isinstance(stage, RepairStage) else {}
    write_json(protocol, kind | dict(stage.protocol))  # JSON is YAML
    sets = [f"{name}={places.file(places.filled(one, own))}" for name, one in stage.sets.items()]
    words = ["evaluate", places.policy(stage.policy)]
    for one in sets:
        words += ["--sets", one]
    words += ["--output", str(own.output), "--protocol-file", str(protocol)]
    words += [] if stage.limit is None else ["--limit", str(stage.limit)]
    return [*words, *option_words(stage.options, own, places)]


def _compare(stage: CompareStage, own: StageFolder, places: StagePlaces) -> list[str]:
    shutil.rmtree(own.output, ignore_errors=True)
    arms: list[str] = []
    for side, seeds in stage.sides.items():
        folders = ",".join(str(places.stages[name].output) for name in seeds)
        arms += ["--arm", f"{side}={folders}"]
    expect = [] if stage.expect is None else ["--expect", places.file(stage.expect)]
    output = ["--output", str(own.output)]
    return ["compare", *arms, *expect, *output, *option_words(stage.options, own, places)]


def _handoff(stage: HandoffStage, own: StageFolder, places: StagePlaces) -> list[str]:
    shutil.rmtree(own.output, ignore_errors=True)
    options = ["--dtype", stage.dtype, "--min-stopping", str(stage.min_stopping)]
    options += option_words(stage.options, own, places)
    return ["handoff", places.policy(stage.policy), "--output", str(own.output), *options]


def _instructions(stage: SFTDataStage, own: StageFolder, places: StagePlaces) -> list[str]:
    # The command resumes in its own folder.
    words = ["data", "instructions", places.file(stage.file), "--output", str(own.output)]
    if stage.policy is not None:
        words += ["--policy", places.policy(stage.policy)]
    return [*words, *option_words(stage.options, own, places)]


def _from_samples(
    stage: PairsStage | RejectionStage, own: StageFolder, places: StagePlaces
) -> list[str]:
    shutil.rmtree(own.output, ignore_errors=True)
    folders = [str(places.stages[name].output) for name in stage.evaluations]
    words = ["data", stage.kind, *folders, "--output", str(own.output)]
    return [*words, *option_words(stage.options, own, places)]


def _report(stage: ReportStage, own: StageFolder, places: StagePlaces) -> list[str]:
    return ["pipeline", "report", str(places.pipeline), "--output", str(own.output)]


def _command(stage: CommandStage, own: StageFolder, places: StagePlaces) -> list[str]:
    shutil.rmtree(own.output, ignore_errors=True)
    if not any(word == "{folder}" for word in stage.words):
        own.output.mkdir()  # a command that is given the folder itself makes it
    files = {str(one) for one in stage.inputs}
    words = [places.file(word) if word in files else word for word in stage.words]
    return [places.filled(word, own) for word in words]


_COMMANDS: tuple[tuple[type, Callable[..., list[str]]], ...] = (
    (TrainStage, _train),
    (MeasuringStage, _evaluate),
    (CompareStage, _compare),
    (HandoffStage, _handoff),
    (AblateStage, _ablate),
    (VerifyStage, _verify),
    (SFTDataStage, _instructions),
    (PairsStage, _from_samples),
    (RejectionStage, _from_samples),
    (ReportStage, _report),
    (CommandStage, _command),
)


def option_words(
    given: Mapping[str, OptionValue], own: StageFolder, places: StagePlaces
) -> list[str]:
    """Return the words of options: true is a flag, false its opposite, a list repeats it."""
    words: list[str] = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(option if value else f"--no-{option.removeprefix('--')}")
            continue
        for one in value if isinstance(value, tuple) else (value,):
            text = places.file(places.filled(one, own)) if isinstance(one, str) else f"{one}"
            words += [option, text]
    return words


def _files_named_in(file: Path, places: StagePlaces) -> list[Path]:
    """Return the files named in a YAML file, such as seeds, by paths from its folder."""
    path = places.files / file
    if not path.is_file():
        return []
    found = (file.parent / text for text in _texts_of(dict(read_yaml(path))))
    return [one for one in found if (places.files / one).is_file()]


def _texts_of(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str) and len(value) < _LONGEST_NAME and "\0" not in value:
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_of(one)


def _base_of(stage: AblateStage, places: StagePlaces) -> Iterator[Path]:
    """Yield the run file under an ablation's file, from the pipeline file's folder."""
    file = places.files / stage.file
    base = read_yaml(file).get("base") if file.exists() else None
    if isinstance(base, str):
        yield stage.file.parent / from_home(Path(base), "base")


def _files_of_options(stage: AnyStage, places: StagePlaces) -> Iterator[str]:
    """Yield the texts of a stage's options that name something in the pipeline file's folder."""
    for value in getattr(stage, "options", {}).values():
        for one in value if isinstance(value, tuple) else (value,):
            # A short word may be the name of a file by chance; a file of options has an ending.
            if isinstance(one, str) and "." in one and (places.files / one).is_file():
                yield one


def served_model(given: str, places: StagePlaces) -> Path:
    """Return the model's folder of what a stage serves: another stage, or a folder."""
    if given.startswith(STAGE):
        return last_model(places.stages[given.removeprefix(STAGE)].output)
    return Path(places.file(given))


def last_model(output: Path) -> Path:
    """Return the folder of the last model of a stage: of a run, or the handed over folder.

    Raises:
        InvalidInput: the stage leaves no policy.
    """
    for name in reversed(STAGES):
        model = output / "models" / name
        if model.is_dir():
            return model
    if (output / "config.json").is_file() and not (output / "models").exists():
        return output
    raise InvalidInput(f"{output} has no policy", hint="name a stage of kind train or handoff")
