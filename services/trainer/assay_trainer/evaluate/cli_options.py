"""The options of `assay evaluate` for the command line. Nothing heavy is imported here."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class KindName(StrEnum):
    """As `ProtocolKind`, without the imports of its module."""

    GREEDY = "greedy"
    SAMPLED = "sampled"
    BUDGET = "budget"
    MAJORITY = "majority"
    LIKELIHOOD = "likelihood"
    REPAIR = "repair"


class ServeName(StrEnum):
    """As `ServeBy`, without the imports of its module."""

    AUTO = "auto"
    SERVICE = "service"
    OWN = "own"


class FormatName(StrEnum):
    """As `PromptFormat`."""

    CHAT = "chat"
    RAW = "raw"


class OptionsName(StrEnum):
    """As `OptionForm`."""

    LETTERS = "letters"
    TEXTS = "texts"


class ScoreName(StrEnum):
    """As `OptionScore`."""

    SUM = "sum"
    MEAN = "mean"


_POLICY = "Checkpoint folder, RUN, RUN:STEP, RUN:STAGE, or owner/name of a hub. Then more sets."
_SETS = "Set: humaneval, gsm8k, a JSONL file or a folder; NAME=SET names it. One or several."
_SERVE = "Who serves a folder: the inference service at ASSAY_INFERENCE_URL (service), an own \
engine that ends with the command (own), or the service if one runs, else an own engine (auto)."

Places = Annotated[list[str] | None, typer.Argument(metavar="[POLICY] [SET]...", help=_POLICY)]
Sets = Annotated[list[str] | None, typer.Option(metavar="SET...", help=_SETS)]
Output = Annotated[Path | None, typer.Option(help="Folder to write, or to resume.")]
Steps = Annotated[str | None, typer.Option(help="Kept checkpoints of RUN: all, or 100,200.")]
Server = Annotated[str | None, typer.Option(help="OpenAI-compatible server, up to its /v1.")]
Model = Annotated[str | None, typer.Option(help="The server's model; needed if it has several.")]
KeyVariable = Annotated[str, typer.Option(help="Environment variable with the server's key.")]
Answers = Annotated[Path | None, typer.Option(help="JSONL of stored answers: task_id, text.")]
Submit = Annotated[
    str | None, typer.Option(help="Judge programs by POST /submit of this URL, not by rubrics.")
]
Serve = Annotated[ServeName, typer.Option(help=_SERVE)]
Kind = Annotated[KindName | None, typer.Option(help="How answers are chosen. Default: greedy.")]
ProtocolFile = Annotated[Path | None, typer.Option(help="YAML of a protocol; options change it.")]
Samples = Annotated[int | None, typer.Option(min=1, help="Answers to each task.")]
Ks = Annotated[list[int] | None, typer.Option(min=1, help="A k of pass@k. Repeatable.")]
BudgetTokens = Annotated[int | None, typer.Option(min=1, help="Drawn tokens a task, for budget.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Most tokens of an answer.")]
Temperature = Annotated[float | None, typer.Option(min=0, help="0 is greedy.")]
TopP = Annotated[float | None, typer.Option(min=0, max=1, help="Nucleus of sampling.")]
Stop = Annotated[list[str] | None, typer.Option(help="Text that ends an answer; \\n is a newline.")]
System = Annotated[str | None, typer.Option(help="System message before each prompt.")]
TemplateArgument = Annotated[
    list[str] | None, typer.Option(help="key=value for the chat template. Repeatable.")
]
Format = Annotated[FormatName | None, typer.Option(help="Of all prompts; else as each task says.")]
Options = Annotated[OptionsName | None, typer.Option(help="What likelihood reads of an option.")]
Score = Annotated[ScoreName | None, typer.Option(help="How likelihood counts an option's tokens.")]
Rounds = Annotated[int | None, typer.Option(min=2, max=16, help="Most programs, for repair.")]
FeedbackTokens = Annotated[int | None, typer.Option(help="Most tokens of a feedback, for repair.")]
VisibleTests = Annotated[
    int | None, typer.Option(min=0, max=64, help="First tests that feedback may show, for repair.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the samples.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Random tasks of each set.")]
LimitSeed = Annotated[int, typer.Option(min=0, help="Which tasks --limit takes.")]
AllowTrain = Annotated[bool, typer.Option("--allow-train", help="Measure rows for training too.")]
Concurrency = Annotated[int, typer.Option(min=1, max=1024, help="Requests at once.")]
RequestTimeout = Annotated[
    float, typer.Option(min=1, max=3600, help="Seconds for each request to --server.")
]
_MAX_FAILED = "Requests in a row without a score that end the command; 32, and 8 first ones that \
all fail alike, if not given."
MaxFailed = Annotated[int | None, typer.Option(min=1, help=_MAX_FAILED)]
QAPerOutcome = Annotated[
    list[str] | None, typer.Option(help="QA samples of each outcome: 10, or SET=6. Repeatable.")
]
