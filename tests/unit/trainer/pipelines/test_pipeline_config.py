"""Pipeline files that are refused, and what the errors name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from assay_shared.errors import ConfigError
from assay_trainer.pipelines.pipeline_config import PipelineConfig, load_pipeline
from assay_trainer.pipelines.runner import Pipeline
from assay_trainer.pipelines.stage_command import StagePlaces, prepare

PIPELINES = Path(__file__).parents[4] / "configs" / "pipelines"
SFT: dict[str, Any] = {"kind": "train", "run": "run.yaml"}
EVALUATE: dict[str, Any] = {"kind": "evaluate", "policy": "stage:sft", "sets": {"a": "a.jsonl"}}


COMMAND: dict[str, Any] = {"kind": "command", "words": ["tasks"]}


def load(tmp_path: Path, stages: dict[str, Any], **further: Any) -> PipelineConfig:
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump({"stages": stages, **further}, sort_keys=False))
    return load_pipeline(file, ())


def test_stages_keep_their_order_and_name_what_they_need(tmp_path: Path) -> None:
    command = {"kind": "command", "words": ["data", "x={stage:sft}/a", "{folder}"], "after": ["e"]}
    found = load(tmp_path, {"sft": SFT, "e": EVALUATE, "c": command})
    assert list(found.stages) == ["sft", "e", "c"]
    assert [list(one.named()) for one in found.stages.values()] == [[], ["sft"], ["e", "sft"]]


def test_a_verification_names_its_policy_and_its_prompts_are_inputs(tmp_path: Path) -> None:
    (tmp_path / "raw.jsonl").write_text('{"prompt": "one"}')
    verify = {"kind": "verify", "policy": "stage:c", "prompts": "raw.jsonl", "per_kind": 3}
    stages = {"c": {"kind": "command", "words": ["data"]}, "v": verify}
    config = load(tmp_path, stages)
    assert list(config.stages["v"].named()) == ["c"]
    pipeline = Pipeline.open(tmp_path, tmp_path / "pipeline.yaml", config)
    places = StagePlaces(tmp_path, {name: one.folder for name, one in pipeline.stages.items()})
    own = pipeline.stages["v"].folder
    words = prepare(config.stages["v"], own, places)
    assert words[:4] == ["verify", str(places.stages["c"].output), "--output", str(own.output)]
    assert words[4:] == [
        *("--per-kind", "3", "--max-tokens", "96", "--prompts", str(tmp_path / "raw.jsonl")),
    ]
    (tmp_path / "raw.jsonl").write_text('{"prompt": "two"}')
    changed = Pipeline.open(tmp_path, tmp_path / "pipeline.yaml", config)
    assert changed.stages["v"].folder.inputs != own.inputs


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({"e": EVALUATE}, "e needs sft, and there is no such stage"),
        ({"e": EVALUATE, "sft": SFT}, "e needs sft, which has to stand before it"),
        ({"sft": SFT | {"after": ["sft"]}}, "has to stand before it"),
        ({"sft": SFT | {"gates": [{"at_least": 0.1}]}}, "only an evaluation has numbers"),
        ({"sft": SFT, "e": EVALUATE | {"gates": [{}]}}, "exactly one of at_least and at_most"),
        (
            {"sft": SFT, "e": EVALUATE | {"gates": [{"set": "b", "at_least": 1}]}},
            "names b, which is not one of its sets",
        ),
        (
            {
                "sft": SFT,
                "e": EVALUATE | {"sets": {"a": "a", "b": "b"}, "gates": [{"at_least": 1}]},
            },
            "has to name one of the sets",
        ),
        (
            {"e": {"kind": "evaluate", "policy": "x", "sets": {"a": "{stage:made}/a.jsonl"}}},
            "e needs made, and there is no such stage",
        ),
        ({"c": COMMAND | {"words": ["a", "{fodler}/a"]}}, "there is no {fodler}"),
        ({"c": COMMAND | {"words": ["{ folder }/a"]}}, "there is no { folder }"),
        ({"c": COMMAND | {"words": ["{stage: sft}/a"]}}, "c needs  sft"),
        ({"c": COMMAND | {"words": ["a\0b"]}}, "NUL"),
        ({"Sft": SFT}, "Sft"),
        ({"sft": {"kind": "sft"}}, "kind"),
        ({"sft": SFT | {"expected_minutes": {"expected": 9, "maximum": 3}}}, "minimum <= expected"),
    ],
)
def test_what_cannot_run_is_refused(tmp_path: Path, stages: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, stages)
    assert message in f"{refused.value.field} {refused.value.message}"


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key") as refused:
        load(tmp_path, {"sft": SFT}, bugdet={"money": 1})
    assert refused.value.field == "bugdet"


@pytest.mark.parametrize("file", sorted(PIPELINES.glob("*.yaml")), ids=lambda file: file.name)
def test_every_example_can_be_planned(file: Path, tmp_path: Path) -> None:
    found = Pipeline.open(tmp_path, file, load_pipeline(file, ()))
    assert all(one.record is None for one in found.stages.values())


def test_values_in_braces_are_no_placeholders(tmp_path: Path) -> None:
    words = ["train", "curriculum={stages: []}", '{"a": 1}', "{}", "grpo={steps: 3}"]
    found = load(tmp_path, {"c": {"kind": "command", "words": words}})
    assert list(found.stages["c"].named()) == []


def test_a_budget_without_a_price_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="limits nothing without price_per_hour"):
        load(tmp_path, {"sft": SFT}, budget={"money": 1.0})


def test_a_set_of_another_stage_is_an_input(tmp_path: Path) -> None:
    evaluate = {"kind": "evaluate", "policy": "x", "sets": {"a": "{stage:made}/a.jsonl"}}
    keys = []
    for number in ("1", "2"):
        file = tmp_path / "pipeline.yaml"
        made = {"kind": "command", "words": ["tasks", "--num", number]}
        file.write_text(yaml.safe_dump({"stages": {"made": made, "e": evaluate}}, sort_keys=False))
        found = Pipeline.open(tmp_path / "p", file, load_pipeline(file, ()))
        keys.append(found.stages["e"].folder.inputs)
    assert keys[0] != keys[1]
