"""What the run file of a stage names is looked up before anything runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import constants

from assay_shared.errors import ConfigError, NotFound
from assay_trainer.pipelines.operation import PipelineOrder, plan_pipeline, run_pipeline
from tests.support.pipelines import open_pipeline

RUN = {
    "policy": {"folder": "model"},
    "data": {
        "train": {"kind": "jsonl", "path": "train.jsonl"},
        "held_out": {"kind": "generated", "num_tasks": 4},
    },
}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start the command in a folder with a model and training rows."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "train.jsonl").write_text("{}")


def ordered(tmp_path: Path, stages: dict[str, Any], run: dict[str, Any] = RUN) -> PipelineOrder:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    open_pipeline(tmp_path, stages)
    return PipelineOrder(tmp_path / "pipeline.yaml", folder=tmp_path / "pipeline")


def train(**values: Any) -> dict[str, Any]:
    return {"kind": "train", "run": "run.yaml", **values}


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"policy.folder": "modle"}, "policy.folder is modle, and there is no such file"),
        ({"data.train.path": "trian.jsonl"}, r"data\.train\.path is trian\.jsonl"),
        ({"dpo": {"data": {"kind": "jsonl", "path": "no"}}}, r"dpo\.data\.path is no,"),
        ({"curriculum": {"from": "nowhere"}}, r"curriculum\.from is nowhere"),
        (
            {"evaluation.tiers": [{"sets": {"a": {"kind": "jsonl", "path": "no"}}}]},
            r"evaluation\.tiers\.0\.sets\.a\.path is no",
        ),
    ],
)
def test_what_is_missing_is_refused_by_plan_and_run(
    tmp_path: Path, overrides: dict[str, Any], told: str
) -> None:
    plan_pipeline(ordered(tmp_path, {"t": train()}), as_json=False)
    order = ordered(tmp_path, {"t": train(overrides=overrides)})
    with pytest.raises(NotFound, match=told) as refused:
        plan_pipeline(order, as_json=False)
    assert refused.value.field == "stages.t.run"
    with pytest.raises(NotFound, match=told):
        run_pipeline(order, (None, None, ()))


def test_paths_from_the_home_folder_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    given = {"policy.folder": "~/model", "data.train.path": "~/train.jsonl"}
    (tmp_path / "ablation.yaml").write_text("{base: ~/run.yaml, arms: {one: {}, two: {}}}")
    stages = {"t": train(overrides=given), "a": {"kind": "ablate", "file": "ablation.yaml"}}
    plan_pipeline(ordered(tmp_path, stages), as_json=False)


@pytest.mark.parametrize("key", ["policy.folder", "data.train.path"])
def test_a_home_folder_that_is_not_there_is_refused(tmp_path: Path, key: str) -> None:
    order = ordered(tmp_path, {"t": train(overrides={key: "~nobody-of-this-name/a"})})
    with pytest.raises(ConfigError, match=rf"{key}: names a home folder .*, not '~nob") as refused:
        plan_pipeline(order, as_json=False)
    assert refused.value.field == "stages.t.run"


def test_a_base_in_a_home_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ablation.yaml").write_text("{base: ~nobody-of-this-name/a, arms: {a: {}, b: {}}}")
    with pytest.raises(ConfigError, match="base: names a home folder that is not there"):
        ordered(tmp_path, {"a": {"kind": "ablate", "file": "ablation.yaml"}})


def test_what_an_earlier_stage_makes_is_not_missed(tmp_path: Path) -> None:
    words = ["or-debug", "generate", "--per-cell", "1", "--output"]
    stages = {
        "made": {"kind": "command", "words": [*words, "{folder}"]},
        "elsewhere": {"kind": "command", "words": [*words, "data/made"]},
        "t": train(
            overrides={
                "data.train.path": "{stage:made}/tasks.jsonl",
                "data.held_out": {"kind": "jsonl", "path": "data/made/tasks.jsonl"},
            }
        ),
    }
    plan_pipeline(ordered(tmp_path, stages), as_json=False)


def test_the_policy_of_the_stage_stands_in_the_place_of_the_files(tmp_path: Path) -> None:
    run = RUN | {"policy": {"folder": "modle"}}
    plan_pipeline(ordered(tmp_path, {"t": train(policy="model")}, run), as_json=False)


def test_a_hubs_name_is_told_and_offline_needs_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = ordered(tmp_path, {"t": train()}, RUN | {"policy": {"hub": "data/smollm2"}})
    plan_pipeline(order, as_json=False)
    assert "t: policy.hub of its run file is data/smollm2" in capsys.readouterr().out
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NotFound, match="offline mode asks no hub") as refused:
        plan_pipeline(order, as_json=False)
    assert refused.value.field == "stages.t.run"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"overrides": {"data.train.path": "no.jsonl"}}, r"data\.train\.path is no\.jsonl"),
        (
            {"evaluation": {"sets": {"a": {"kind": "jsonl", "path": "none"}}}},
            r"evaluation\.sets\.a\.path is none",
        ),
    ],
)
def test_the_base_and_the_sets_of_an_ablation_are_looked_up(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    stages = {"a": {"kind": "ablate", "file": "sub/ablation.yaml"}}
    file = tmp_path / "sub" / "ablation.yaml"
    file.parent.mkdir()
    ablation = {"base": "../run.yaml", "arms": {"one": {}, "two": {"grpo.steps": 3}}}
    (tmp_path / "run.yaml").write_text("{}")
    file.write_text(yaml.safe_dump(ablation))
    plan_pipeline(ordered(tmp_path, stages), as_json=False)
    file.write_text(yaml.safe_dump(ablation | change))
    with pytest.raises(NotFound, match=told) as refused:
        plan_pipeline(ordered(tmp_path, stages), as_json=False)
    assert refused.value.field == "stages.a.file"


@pytest.mark.parametrize(
    ("runs", "transfer", "is_told"),
    [("runs", "folder", True), (".", "folder", False), ("runs", "direct", False)],
)
def test_a_folder_that_inference_may_not_read_weights_from_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    runs: str,
    transfer: str,
    is_told: bool,
) -> None:
    monkeypatch.setenv("ASSAY_RUNS", runs)
    monkeypatch.setenv("ASSAY_WEIGHT_TRANSFER", transfer)
    plan_pipeline(ordered(tmp_path, {"t": train()}), as_json=False)
    assert ("is outside of ASSAY_RUNS (runs)" in capsys.readouterr().out) is is_told
