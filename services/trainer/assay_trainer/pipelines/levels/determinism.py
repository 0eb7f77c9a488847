"""Files of stages that another run with the same inputs need not write byte by byte."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from assay_trainer.pipelines.pipeline_config import PipelineConfig
from assay_trainer.pipelines.stage_kinds import (
    AblateStage,
    AnyStage,
    CommandStage,
    CompareStage,
    HandoffStage,
    MeasuringStage,
    PairsStage,
    RejectionStage,
    ReportStage,
    SFTDataStage,
    TrainStage,
    VerifyStage,
)

_TIMES = "tells times, costs or paths"
_GRPO = "GRPO learns from answers in the order of their arrival"
_GPU = "a GPU computed it"
_SERVED = "a served policy was asked"
_LEARNT = "models/grpo/"
#: The files that tell times or paths; `*` matches folders too.
_TELLING: tuple[tuple[tuple[type, ...], tuple[str, ...]], ...] = (
    (
        (TrainStage,),
        ("config.json", "*.jsonl", "status.json", "evaluation/*", "figures/time.png", "report.*"),
    ),
    (
        (MeasuringStage,),
        ("evaluation.json", "*/metrics.json", "*/samples.jsonl", "report.*"),
    ),
    ((PairsStage, RejectionStage, SFTDataStage, CommandStage), ("manifest.json", "*.log")),
    ((HandoffStage,), ("HANDOFF.md", "handoff.json")),
    ((AblateStage, CompareStage, ReportStage, VerifyStage), ("*",)),
)
#: Of a run's lines, these tell no times.
_PLAIN = ("tasks.jsonl", "validation.jsonl")
_COMPUTING = (TrainStage, MeasuringStage, SFTDataStage, VerifyStage, AblateStage)


def undetermined(
    config: PipelineConfig, outputs: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, str]]:
    """Return the reasons by stage and file; of any other file, two runs write the same bytes.

    Args:
        config: The pipeline.
        outputs: The names of the files of each finished stage, in the order of the pipeline.
    """
    spread: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {}
    for name, files in outputs.items():
        stage, files = config.stages[name], list(files)
        reason = _reason(stage, files, config)
        follows = next((one for one in config.needs(name) if one in spread), None)
        if not reason and follows is not None:
            reason = f"follows from {follows}"
        if reason:
            spread[name] = reason
        found[name] = {file: told for file in files if (told := reason or _tells(stage, file))}
    return found


def _reason(stage: AnyStage, files: list[str], config: PipelineConfig) -> str:
    """Return why nothing of a stage has to be the same; empty if its inputs decide it."""
    gpus = config.gpus if stage.gpus is None else stage.gpus
    if isinstance(stage, AblateStage) or any(one.startswith(_LEARNT) for one in files):
        return _GRPO
    if isinstance(stage, CommandStage) and stage.serve is not None:
        return _SERVED
    return _GPU if gpus and isinstance(stage, _COMPUTING) else ""


def _tells(stage: AnyStage, file: str) -> str:
    """Return why a file differs although the result is the same; empty if it does not."""
    if isinstance(stage, TrainStage) and file in _PLAIN:
        return ""
    for kinds, patterns in _TELLING:
        if isinstance(stage, kinds) and any(fnmatchcase(file, one) for one in patterns):
            return _TIMES
    return ""
