"""The short run before a long one: its words, and that it is made once."""

from pathlib import Path

import yaml

from assay_trainer.pipelines.smoke import smoke_commands, smoke_passed
from assay_trainer.pipelines.stage_command import StagePlaces
from assay_trainer.pipelines.stage_folder import StageFolder
from assay_trainer.pipelines.stage_kinds import TrainStage

RUN = {
    "policy": {"new": {}},
    "data": {"train": {"kind": "generated", "num_tasks": 9}, "held_out": {"kind": "generated"}},
    "sft": {"steps": 500},
    "grpo": {"steps": 60},
}


def commands(tmp_path: Path, **fields: object) -> tuple[list[list[str]], StageFolder, TrainStage]:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(RUN))
    stage = TrainStage.model_validate({"kind": "train", "run": "run.yaml"} | fields)
    own = StageFolder(tmp_path, "sft", "1")
    return smoke_commands(stage, own, StagePlaces(tmp_path, {})), own, stage


def test_each_stage_of_the_run_is_short_and_its_checkpoint_is_loaded(tmp_path: Path) -> None:
    overrides = {"sft.learning_rate": 0.1, "grpo": None}
    (train, load), own, _ = commands(tmp_path, smoke_steps=10, overrides=overrides)
    assert train[:2] == ["train", str(tmp_path / "run.yaml")]
    assert {"sft.learning_rate=0.1", "sft.steps=10", "sft.checkpoint_every=10"} <= set(train)
    assert "data.held_out.num_tasks=4" in train
    assert not any(one.startswith("grpo.") for one in train), "GRPO is left out"
    run = str(own.path / "smoke" / "run")
    assert train[-2:] == ["--folder", run]
    assert load[:2] == ["handoff", run]
    assert not any(str(own.output) in one for one in (*train, *load))


def test_it_is_made_once_and_never_before_a_run_that_has_begun(tmp_path: Path) -> None:
    assert commands(tmp_path)[0] == []
    found, own, stage = commands(tmp_path, smoke_steps=2)
    assert len(found) == 2
    smoke_passed(stage, own)
    assert not (own.path / "smoke").exists()
    assert commands(tmp_path, smoke_steps=2)[0] == []
    begun = tmp_path / "begun"
    begun.mkdir()
    _, own, stage = commands(begun, smoke_steps=2)
    own.output.mkdir(parents=True)
    (own.output / "config.json").write_text("{}")
    assert commands(begun, smoke_steps=2)[0] == []
