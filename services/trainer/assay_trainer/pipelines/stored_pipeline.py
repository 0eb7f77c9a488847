"""pipeline.json of a pipeline's folder: the pipeline as it was last run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, JsonValue, ValidationError

from assay_shared.errors import Conflict, DatasetError, NotFound
from assay_shared.runs.own_folder import check_own_folder
from assay_shared.runs.regular_file import read_regular, reason_of
from assay_shared.runs.run_folder import write_json
from assay_shared.settings.run_file import parse_config
from assay_shared.settings.validation import message_of
from assay_trainer.pipelines.pipeline_config import PipelineConfig
from assay_trainer.pipelines.runner import Pipeline

STORED = "pipeline.json"
_MOST_BYTES = 4 * 2**20


class _Stored(BaseModel):
    """The file of a pipeline, its content, and the inputs of its stages."""

    file: Path
    config: dict[str, JsonValue]
    inputs: dict[str, str]


@dataclass(frozen=True)
class StoredPipeline:
    """The content of pipeline.json."""

    folder: Path
    file: Path
    config: PipelineConfig
    inputs: Mapping[str, str]

    def opened(self) -> Pipeline:
        """Return the pipeline by its input files as they are now.

        Raises:
            NotFound: a file that a stage names is missing.
        """
        return Pipeline.open(self.folder, self.file, self.config)

    def recorded(self) -> Pipeline:
        """Return the pipeline by its input files as they were at its last run."""
        return Pipeline.recorded(self.folder, self.file, self.config, self.inputs)


def check_same_pipeline(pipeline: Pipeline) -> None:
    """Check that the pipeline's folder is its own, a new or an empty one.

    Raises:
        Conflict: another pipeline has the folder.
        InvalidInput: it has files of something else.
    """
    folder, name = pipeline.folder, pipeline.config.name
    # A pipeline's file may lie in its folder, and a folder may have lost pipeline.json alone.
    is_known = folder in pipeline.file.resolve().parents or (folder / "stages").is_dir()
    if not is_known:
        check_own_folder(
            folder,
            STORED,
            "is not the folder of a pipeline",
            "name a new or an empty folder, or that of this pipeline",
            field="--folder",
        )
    try:
        stored = _read(folder)
    except (NotFound, DatasetError):
        return  # it is written again
    theirs, stages = stored.config.get("name"), stored.config.get("stages")
    # Two files that give no name have the same default.
    is_other = isinstance(stages, dict) and stages.keys().isdisjoint(pipeline.config.stages)
    if theirs != name or (is_other and stored.file != pipeline.file.resolve()):
        raise Conflict(
            f"{folder} is of the pipeline {theirs!r:.100} of {stored.file}, and {pipeline.file} "
            f"is the pipeline {name!r}",
            field="--folder",
            hint="name another --folder; if it is the same pipeline, give it its old name",
        )


def store_pipeline(pipeline: Pipeline) -> None:
    """Write pipeline.json."""
    write_json(
        pipeline.folder / STORED,
        {
            "file": str(pipeline.file.resolve()),
            "config": pipeline.config.model_dump(mode="json"),
            "inputs": {name: one.folder.inputs for name, one in pipeline.stages.items()},
        },
    )


def read_stored(folder: Path) -> StoredPipeline:
    """Return the content of a folder's pipeline.json.

    Raises:
        NotFound: the folder has none.
        DatasetError: it cannot be read.
        ConfigError: its pipeline is of another version.
    """
    folder = folder.resolve()
    stored = _read(folder)
    config = parse_config(PipelineConfig, stored.config, source=str(folder / STORED))
    return StoredPipeline(folder, stored.file, config, stored.inputs)


def _read(folder: Path) -> _Stored:
    """Return pipeline.json; its pipeline may be of another version.

    Raises:
        NotFound: the folder has none.
        DatasetError: it cannot be read.
    """
    file = folder / STORED
    try:
        return _Stored.model_validate_json(read_regular(file, _MOST_BYTES))
    except FileNotFoundError:
        raise NotFound(f"{folder} is not the folder of a pipeline: it lacks {STORED}") from None
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {reason_of(error)}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))[:200] or None
        told = f"{file} cannot be read: {message_of(first):.200}"
        raise DatasetError(told, field=field) from None


def stored_pipeline(folder: Path) -> Pipeline:
    """Return the pipeline of a folder, by its input files as they are now.

    Raises:
        NotFound: the folder has none, or a file that a stage names is missing.
        DatasetError: pipeline.json cannot be read.
    """
    return read_stored(folder).opened()
