"""A policy's name is looked up before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from assay_shared.errors import NotFound
from assay_trainer.pipelines.operation import PipelineOrder, plan_pipeline, run_pipeline
from tests.support.pipelines import open_pipeline


@pytest.fixture(autouse=True)
def is_online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


def ordered(tmp_path: Path, policy: str, *earlier: dict[str, Any]) -> PipelineOrder:
    """Return the order of a pipeline with an evaluation after these stages."""
    stages = {f"s{number}": one for number, one in enumerate(earlier)}
    evaluate = {"kind": "evaluate", "policy": policy, "sets": {"a": "a"}, "after": [*stages]}
    open_pipeline(tmp_path, stages | {"e": evaluate})
    return PipelineOrder(tmp_path / "pipeline.yaml", folder=tmp_path / "pipeline")


def test_a_name_that_is_no_folder_is_told_as_a_hubs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = ordered(tmp_path, "data/smollm2")
    for as_json in (False, True):
        plan_pipeline(order, as_json=as_json)
        told = "e: data/smollm2 is not a folder here: it is taken as a hub's name"
        assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("data/smollm2", "there is no folder data/smollm2, and data is one here"),
        ("data/models/smollm2", "there is no policy 'data/models/smollm2'"),
        ("smollm2", "there is no policy 'smollm2'"),
    ],
)
def test_a_mistyped_folder_is_refused_by_plan_and_run(
    tmp_path: Path, policy: str, told: str
) -> None:
    order = ordered(tmp_path, policy)
    (tmp_path / "data").mkdir()
    with pytest.raises(NotFound, match=told) as refused:
        plan_pipeline(order, as_json=False)
    assert refused.value.field == "stages.e.policy"
    with pytest.raises(NotFound, match=told):
        run_pipeline(order, (None, None, ()))


def test_a_revision_says_that_a_hub_is_meant_and_a_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "data" / "model").mkdir(parents=True)
    for policy in ("data/smollm2@main", "data/model", str(tmp_path / "data")):
        plan_pipeline(ordered(tmp_path, policy), as_json=False)


def test_offline_a_name_without_a_copy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NotFound, match="offline mode asks no hub"):
        plan_pipeline(ordered(tmp_path, "data/smollm2"), as_json=False)


def test_a_folder_that_an_earlier_command_makes_is_not_missed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    words = ["or-debug", "generate", "--output", "data/model", "--per-cell", "1"]
    plan_pipeline(
        ordered(tmp_path, "data/model", {"kind": "command", "words": words}), as_json=False
    )


def test_a_policy_to_serve_is_a_folder(tmp_path: Path) -> None:
    serve = {"kind": "command", "words": ["tasks", "--num", "{server}"], "serve": "a/b"}
    serve["words"] = ["or-debug", "report", "{server}", "--output", "x"]
    with pytest.raises(NotFound, match=r"stages\.s0\.serve: there is no folder a/b"):
        plan_pipeline(ordered(tmp_path, "data/model", serve), as_json=False)
