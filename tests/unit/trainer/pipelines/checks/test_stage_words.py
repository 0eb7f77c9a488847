"""A stage's command and options are checked before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from assay_shared.errors import InvalidInput
from assay_trainer.pipelines.checks.stage_words import check_words
from assay_trainer.pipelines.operation import PipelineOrder, plan_pipeline, run_pipeline
from assay_trainer.pipelines.pipeline_config import load_pipeline
from assay_trainer.pipelines.stage_command import StagePlaces
from assay_trainer.pipelines.stage_folder import StageFolder
from tests.support.pipelines import open_pipeline

EXAMPLES = Path(__file__).parents[5] / "configs" / "pipelines"
EVALUATE = {"kind": "evaluate", "policy": "stage:t", "sets": {"a": "a"}}
TRAIN = {"kind": "train", "run": "run.yaml"}


def plan(tmp_path: Path, *words: str) -> None:
    stages = {"c": {"kind": "command", "words": [*words]}}
    open_pipeline(tmp_path, stages)
    order = PipelineOrder(tmp_path / "pipeline.yaml", folder=tmp_path / "pipeline")
    plan_pipeline(order, as_json=False)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("taskz --num 1", "No such command 'taskz'"),
        ("or-debug generat", "`assay or-debug`: No such command 'generat'"),
        ("or-debug", "`assay or-debug` needs a command"),
        ("tasks --nmu 1", "`assay tasks`: No such option: --nmu .*--num"),
        ("tasks --num", "requires an argument"),
        ("tasks --num many", "'--num': Input should be a valid integer"),
        ("or-debug generate --per-cell 1", "needs --output"),
        ("or-debug generate --output {folder} more", "takes no further 'more'"),
        ("pipeline run pipeline.yaml", "its own pipeline"),
        ("pipeline reproduce pipeline", "its own pipeline"),
    ],
)
def test_a_command_that_assay_does_not_have_is_refused_by_the_plan(
    tmp_path: Path, words: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        plan(tmp_path, *words.split())
    assert refused.value.field == "stages.c.words"


@pytest.mark.parametrize(
    "words",
    ["tasks --num 1", "or-debug generate --output {folder} --per-cell 2", "pipeline run two.yaml"],
)
def test_a_command_that_assay_has_is_planned(tmp_path: Path, words: str) -> None:
    plan(tmp_path, *words.split())


def test_nothing_runs_before_a_wrong_command_later(tmp_path: Path) -> None:
    stages = {
        "first": {"kind": "command", "words": ["tasks", "--num", "1"]},
        "bad": {"kind": "command", "words": ["taskz"]},
    }
    found = open_pipeline(tmp_path, stages)
    order = PipelineOrder(tmp_path / "pipeline.yaml", folder=tmp_path / "pipeline")
    with pytest.raises(InvalidInput, match="taskz"):
        run_pipeline(order, (None, None, ()))
    assert not found.stages["first"].folder.path.exists()
    run_pipeline(order, ("first", "first", ()))


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        (EVALUATE | {"options": {"concurency": 3}}, "No such option: --concurency"),
        (EVALUATE | {"options": {"concurrency": "x"}}, "'--concurrency': Input should be a valid"),
        ({"kind": "pairs", "evaluations": ["e"], "options": {"a": 1}}, "No such option: --a"),
    ],
)
def test_a_wrong_option_of_any_kind_is_refused(
    tmp_path: Path, stage: dict[str, Any], told: str
) -> None:
    (tmp_path / "run.yaml").write_text("{}")
    (tmp_path / "a").write_text("")
    found = open_pipeline(tmp_path, {"t": TRAIN, "e": EVALUATE, "s": stage})
    one = found.stages["s"]
    with pytest.raises(InvalidInput, match=told) as refused:
        check_words(one.stage, one.folder, found.places, found.file)
    assert refused.value.field == "stages.s.options"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_every_example_has_right_commands(tmp_path: Path, file: Path) -> None:
    folders: dict[str, StageFolder] = {}
    places = StagePlaces(file.parent, folders, tmp_path)
    small = file.parent / "small_scale" / file.name
    further = (small,) if small.exists() else ()
    stages = load_pipeline(file, ()).stages | load_pipeline(file, (), further).stages
    for name, stage in stages.items():
        folders[name] = StageFolder(tmp_path, name, "0")
        check_words(stage, folders[name], places, file)
