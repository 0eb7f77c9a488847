"""The file of `assay data instructions`. Paths in it are from its folder."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from assay_shared.settings.run_file import Config
from assay_shared.types import PromptFormat

#: Seeds and made instructions are in memory.
MAX_INSTRUCTIONS = 200_000
#: Characters of a reply that are stored: a longer one is too long for any row.
MAX_STORED_CHARACTERS = 65_536
_Path = Annotated[Path, Field(strict=False)]


class ServerConfig(Config):
    """An OpenAI-compatible server in the place of a policy."""

    #: Up to its /v1.
    url: str
    #: Needed if the server has several.
    model: str | None = None
    #: The environment variable with its key.
    key_variable: str = "OPENAI_API_KEY"
    #: Seconds for each request.
    timeout_s: float = Field(default=300.0, ge=1, le=3600)


class SamplingConfig(Config):
    """How texts of one kind are sampled."""

    max_tokens: int = Field(default=512, gt=0)
    temperature: float = Field(default=0.7, ge=0, le=10)
    top_p: float = Field(default=0.95, gt=0, le=1)


class InventionConfig(SamplingConfig):
    """How new instructions are sampled: each request shows some, and asks for more."""

    temperature: float = Field(default=1.0, ge=0, le=10)
    #: New instructions that are wanted.
    wanted: int = Field(default=100, ge=0, le=MAX_INSTRUCTIONS)
    #: Shown in a request: seeds, and instructions made in earlier rounds.
    seeds_shown: int = Field(default=6, ge=1, le=32)
    made_shown: int = Field(default=2, ge=0, le=32)
    #: New instructions that a request asks for.
    per_request: int = Field(default=4, ge=1, le=32)
    #: Requests of a round. The instructions of a round are shown from the next round on.
    round_requests: int = Field(default=16, ge=1, le=1024)
    #: Requests in all: with fewer new instructions than wanted, the command continues with those.
    max_requests: int = Field(default=1000, ge=1, le=MAX_INSTRUCTIONS)


class AnswersConfig(SamplingConfig):
    """How answers are sampled."""

    #: Answers to each instruction; the best one becomes a row.
    samples: int = Field(default=1, ge=1, le=64)
    #: Seeds with their answers that are shown before a raw prompt; a chat shows none.
    shown: int = Field(default=3, ge=0, le=16)
    #: A system message, of chats alone.
    system: str | None = None


class RevisionConfig(SamplingConfig):
    """How answers are criticised and revised by a constitution."""

    constitution: _Path
    #: Principles for each answer, one after another, chosen by the seed.
    principles: int = Field(default=1, ge=1, le=16)
    #: Also write preferences: the revised answer chosen, the first one rejected.
    pairs: bool = False


class FiltersConfig(Config):
    """Bounds of instructions and answers, in characters and words."""

    min_instruction_words: int = Field(default=3, ge=1)
    max_instruction_words: int = Field(default=150, ge=1)
    min_answer_characters: int = Field(default=1, ge=1)
    max_answer_characters: int = Field(default=8_000, ge=1, le=MAX_STORED_CHARACTERS)
    #: A greater share of words in runs of four that stood there before is a repetition.
    max_repeated: float = Field(default=0.5, ge=0, le=1)
    #: Instructions of this similarity to a seed or to an earlier one are near duplicates.
    similarity: float = Field(default=0.7, ge=0.3, le=1)

    @model_validator(mode="after")
    def _bounds_are_ordered(self) -> Self:
        for name in ("instruction_words", "answer_characters"):
            if getattr(self, f"min_{name}") > getattr(self, f"max_{name}"):
                raise ValueError(f"min_{name} is above max_{name}")
        return self


class ScoringConfig(Config):
    """The rubric that decides on answers to new instructions; it has to work without a reference.

    Answers to given tasks are scored by the rubric of each task.
    """

    rubric: str = "qa"
    #: Answers with a lower score are left out.
    min_score: float = 1.0


class InstructionsConfig(Config):
    """What is made, from which seeds, by which model."""

    #: The name of the dataset.
    name: str = Field(default="instructions", pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
    #: Rows with `instruction`, and perhaps an answer in `response`, `output` or `completion`.
    seeds: _Path | None = None
    #: Folders and files of tasks for training, whose prompts are answered as well.
    tasks: tuple[_Path, ...] = ()
    #: A folder, RUN, RUN:STEP, or a hub's name; --policy takes its place.
    policy: str | None = None
    server: ServerConfig | None = None
    #: `raw` is for base models: no chat template touches a prompt.
    prompt_format: PromptFormat = Field(default=PromptFormat.CHAT, strict=False)
    seed: int = Field(default=0, ge=0, lt=2**32)
    invention: InventionConfig = InventionConfig()
    answers: AnswersConfig = AnswersConfig()
    revision: RevisionConfig | None = None
    filters: FiltersConfig = FiltersConfig()
    #: Null leaves all answers unscored.
    scoring: ScoringConfig | None = ScoringConfig()
    #: Folders and files of held-out tasks: no row has a prompt of them, nor one near to it.
    against: tuple[_Path, ...] = ()
    #: Share of the prompts that are held out, by the hash of each prompt.
    validation_share: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _has_prompts(self) -> Self:
        if self.seeds is None and self.invention.wanted:
            raise ValueError("new instructions need seeds; invention.wanted: 0 makes none")
        if not self.tasks and not self.invention.wanted:
            raise ValueError("give seeds for new instructions, or tasks to answer")
        if self.policy is not None and self.server is not None:
            raise ValueError("give either policy or server")
        if self.answers.system is not None and self.prompt_format is PromptFormat.RAW:
            raise ValueError("a raw prompt takes no answers.system")
        return self

    def from_folder(self, folder: Path) -> "InstructionsConfig":
        """Return the same with paths that start at the file's folder."""
        update: dict[str, object] = {
            "tasks": tuple(folder / one for one in self.tasks),
            "against": tuple(folder / one for one in self.against),
        }
        if self.seeds is not None:
            update["seeds"] = folder / self.seeds
        if self.revision is not None:
            place = folder / self.revision.constitution
            update["revision"] = self.revision.model_copy(update={"constitution": place})
        return self.model_copy(update=update)
