"""The file evaluation.json: what was asked, who played which tasks, and the summary."""

from collections import Counter
from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from assay_reward.or_debug.evaluate.evaluation import cell_of
from assay_reward.or_debug.evaluate.summary import EvaluationSummary
from assay_shared.errors import DatasetError, NotFound
from assay_shared.runs.run_folder import must_exist, write_json
from assay_shared.settings.validation import message_in_row
from assay_shared.text.strict_json import read_strict_json
from assay_shared.types import Role, SamplingParams, Task, Wire

EVALUATION, EPISODES = "evaluation.json", "episodes.jsonl"
_HINT = "evaluate the policy again with assay or-debug evaluate"


class CellTask(Wire):
    """A task that each policy played."""

    id: str
    #: Its error type and difficulty, such as A/easy.
    cell: str
    difficulty: str

    @classmethod
    def of(cls, task: Task) -> "CellTask":
        return cls(id=task.id, cell=cell_of(task), difficulty=task.tags.get("difficulty", "?"))


class AskedOptions(Wire):
    """The options of an evaluation."""

    data: str
    policy: str
    #: The digest of the policy's weights; null where only the server knows them.
    weights: str | None = None
    #: SHA-256 of the tasks as they were played.
    tasks: str
    role: Role | None
    max_per_cell: int | None
    #: Episodes of each task.
    samples: int = Field(ge=1)
    max_turns: int | None
    seed: int
    sampling: SamplingParams


class EvaluationFile(Wire):
    """The content of evaluation.json."""

    #: The evaluated policy, then the baselines.
    policies: tuple[str, ...] = Field(min_length=1)
    tasks: tuple[CellTask, ...] = Field(min_length=1)
    asked: AskedOptions
    evaluation: EvaluationSummary
    provenance: dict[str, object]

    @model_validator(mode="after")
    def _names_are_unique(self) -> "EvaluationFile":
        for field, names in (
            ("policies", self.policies),
            ("tasks", [task.id for task in self.tasks]),
        ):
            ((name, number),) = Counter(names).most_common(1)
            if number > 1:
                raise ValueError(f"{field} has {name!r} {number} times")
        if self.policies[0] != self.evaluation.policy:
            raise ValueError("the first of policies must be the policy of evaluation")
        return self

    def write(self, folder: Path) -> None:
        write_json(folder / EVALUATION, self.model_dump(mode="json"))


def read_evaluation_file(folder: Path) -> EvaluationFile:
    """Return the content of a folder's evaluation.json.

    Raises:
        NotFound: there is no such folder, or it is not an evaluation.
        DatasetError: the file cannot be used; names its field.
    """
    path = folder / EVALUATION
    must_exist(folder)
    if not path.is_file() or not (folder / EPISODES).is_file():
        raise NotFound(
            f"{folder} is not an evaluation", hint="assay or-debug evaluate writes such folders"
        )
    try:
        return EvaluationFile.model_validate(read_strict_json(path.read_bytes()))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        told = f"{path}: {message_in_row(first).replace('the row', 'the file')}"
        raise DatasetError(told, field=field, hint=_HINT) from None
    except ValueError as error:
        raise DatasetError(f"{path} is not JSON that can be read: {error}", hint=_HINT) from None
