"""The given answers: files of groups, each a task with eight answers and the truth about them."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from assay_shared.errors import ConfigError
from assay_shared.settings.run_file import Config, load_config
from assay_shared.types import Label, Task
from assay_shared.verdicts.compared import Nature

FOLDER = Path(__file__).parent / "answers"


class ScriptedReply(Config):
    """A reply of the judging model: a verdict, or a trouble in place of one.

    `empty`: a reply without text. `cut`: one that ends at its token limit. `busy`: a status of 503.
    """

    says: Label | None = None
    #: The model's reasoning before the verdict.
    thinks: str = ""
    trouble: Literal["empty", "cut", "busy"] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.says is None) is (self.trouble is None):
            raise ValueError("a reply has either `says` or `trouble`")
        return self


class TrialAnswer(Config):
    """An answer with the truth about it."""

    nature: Nature
    #: For people: what the answer does.
    note: str = Field(min_length=1)
    text: str
    #: Replies of the judging model about this answer, oldest first; the last one is repeated.
    judge: tuple[ScriptedReply, ...] = ()


class TrialGroup(Config):
    """A task, and the answers that a policy might have given to it."""

    name: str = Field(min_length=1)
    task: Task
    answers: tuple[TrialAnswer, ...] = Field(min_length=2, max_length=64)
    #: Number of the answer, from 1, under which the sandbox is killed. It must run for seconds.
    killed_answer: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.killed_answer is not None and self.killed_answer > len(self.answers):
            raise ValueError(f"killed_answer is over {len(self.answers)}, the number of answers")
        texts = {answer.text for answer in self.answers}
        if len(texts) < len(self.answers):
            raise ValueError("two answers have the same text")
        if any(bool(answer.judge) != (self.task.rubric == "qa") for answer in self.answers):
            raise ValueError("answers have `judge` for the rubric qa, and for no other rubric")
        return self


class TrialFile(Config):
    """A file of groups."""

    groups: tuple[TrialGroup, ...] = Field(min_length=1)


def read_groups(source: Path = FOLDER) -> list[TrialGroup]:
    """Return the groups of a file, or of all YAML files in a folder, by file name.

    Raises:
        ConfigError: a file cannot be used; names the key. Or there is none.
    """
    files = sorted(source.glob("*.yaml")) if source.is_dir() else [source]
    if not files:
        raise ConfigError(f"{source} has no file of answers", field="answers", hint="NAME.yaml")
    return [group for file in files for group in load_config(TrialFile, file).groups]
