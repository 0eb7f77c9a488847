"""Pipeline files that are refused, and what the errors name."""

import json
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
        ({"sft": SFT | {"gates": [{"set": "a", "at_least": 0.1}]}}, "names a, which is not one"),
        ({"sft": SFT | {"gates": [{"fail_below": 0.1}]}}, "give pass_at_least with fail_below"),
        (
            {"sft": SFT | {"gates": [{"fail_below": 0.5, "pass_at_least": 0.4}]}},
            "the bound to pass has to be the stricter one",
        ),
        ({"sft": SFT, "p": {"kind": "pairs", "evaluations": ["sft"]}}, "sft has none"),
        ({"p": {"kind": "pairs", "evaluations": ["e"]}}, "p needs e, and there is no such stage"),
        (
            {"sft": SFT | {"overrides": {"dpo.data": {"path": "{stage:pairs}/a.jsonl"}}}},
            "sft needs pairs, and there is no such stage",
        ),
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
        ({"c": COMMAND | {"words": ["{server}"]}}, "serve goes with {server}"),
        ({"c": COMMAND | {"serve": "model"}}, "serve goes with {server}"),
        ({"c": {"kind": "compare"}}, "give exactly one of evaluations and arms"),
        ({"sft": SFT, "e": EVALUATE, "c": {"kind": "compare", "arms": {"a": ["e"]}}}, "two sides"),
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


SMALL = sorted((PIPELINES / "small_scale").glob("*.yaml"))


@pytest.mark.parametrize("small", SMALL, ids=lambda file: file.name)
def test_every_example_can_be_planned_on_a_small_scale(small: Path, tmp_path: Path) -> None:
    file = PIPELINES / small.name
    config = load_pipeline(file, (), (small,))
    assert config.name != load_pipeline(file, ()).name, "their folders are apart"
    found = Pipeline.open(tmp_path, file, config)
    assert {one.record for one in found.stages.values()} == {None}
    assert not any(
        "Qwen" in json.dumps(one.stage.model_dump(mode="json")) for one in found.stages.values()
    )


def test_a_further_file_merges_replaces_takes_away_and_puts_new_stages_first(
    tmp_path: Path,
) -> None:
    file, further = tmp_path / "pipeline.yaml", tmp_path / "further.yaml"
    train = SFT | {"overrides": {"sft.steps": 9, "grpo": None}}
    stages = {"sft": train, "e": EVALUATE, "c": COMMAND}
    file.write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
    changes = {
        "base": SFT,
        "sft": {"policy": "stage:base", "overrides": {"sft.steps": 2, "dpo": None}},
        "e": {"sets": {"b": "b.jsonl"}},
        "c": None,
    }
    further.write_text(yaml.safe_dump({"name": "other", "stages": changes}, sort_keys=False))
    found = load_pipeline(file, ("stages.e.limit=3",), (further,))
    assert list(found.stages) == ["base", "sft", "e"]
    assert found.stages["sft"].model_dump()["overrides"] == {
        **{"sft.steps": 2, "grpo": None},
        "dpo": None,
    }
    assert found.stages["e"].model_dump()["sets"] == {"a": "a.jsonl", "b": "b.jsonl"}
    assert found.stages["e"].model_dump()["limit"] == 3
    with pytest.raises(ConfigError, match="unknown key in pipeline.yaml with further.yaml"):
        load_pipeline(file, ("stages.e.limt=3",), (further,))


def prepared(tmp_path: Path, stages: dict[str, Any], name: str) -> list[str]:
    """The words of a stage, with the pipeline's folder in the place of its path."""
    config = load(tmp_path, stages)
    pipeline = Pipeline.open(tmp_path / "p", tmp_path / "pipeline.yaml", config)
    one = pipeline.stages[name]
    words = prepare(one.stage, one.folder, pipeline.places)
    names = {str(two.folder.output): f"<{two.name}>" for two in pipeline.stages.values()}
    found = []
    for word in words:
        for folder, told in names.items():
            word = word.replace(folder, told)
        found.append(word.replace(str(tmp_path), "."))
    return found


def test_rows_come_from_the_samples_of_evaluations(tmp_path: Path) -> None:
    options = {"min_margin": 0.3, "judge": "judge.yaml", "strict": True, "kind": ["a", "b"]}
    (tmp_path / "judge.yaml").write_text("chain: []\n")
    (tmp_path / "seeds.yaml").write_text("a: 1\n")
    made = {"kind": "sft_data", "file": "seeds.yaml", "policy": "stage:sft"}
    pairs = {"kind": "pairs", "evaluations": ["e"], "options": options}
    dpo = SFT | {"overrides": {"dpo.data": {"kind": "jsonl", "path": "{stage:pairs}/a.jsonl"}}}
    (tmp_path / "run.yaml").write_text("name: a\n")
    stages = {"sft": SFT, "made": made, "e": EVALUATE, "pairs": pairs, "dpo": dpo}
    assert prepared(tmp_path, stages, "made") == [
        *("data", "instructions", "./seeds.yaml", "--output", "<made>", "--policy", "<sft>"),
    ]
    assert prepared(tmp_path, stages, "pairs") == [
        *("data", "pairs", "<e>", "--output", "<pairs>", "--min-margin", "0.3"),
        *("--judge", "./judge.yaml", "--strict", "--kind", "a", "--kind", "b"),
    ]
    words = prepared(tmp_path, stages, "dpo")
    assert words[2] == 'dpo.data={"kind": "jsonl", "path": "<pairs>/a.jsonl"}'


def test_sides_of_a_comparison_have_several_seeds(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: a\n")
    evaluations = dict.fromkeys(("e", "f", "g"), EVALUATE)
    compare = {"kind": "compare", "arms": {"base": ["e"], "grpo": ["f", "g"]}}
    stages = {"sft": SFT, **evaluations, "c": compare}
    assert prepared(tmp_path, stages, "c") == [
        *("compare", "--arm", "base=<e>", "--arm", "grpo=<f>,<g>", "--output", "<c>"),
    ]
    assert set(load(tmp_path, stages).stages["c"].named()) == {"e", "f", "g"}


def test_a_report_needs_all_stages_before_it(tmp_path: Path) -> None:
    report = {"kind": "report"}
    config = load(tmp_path, {"c": COMMAND, "d": COMMAND, "r": report, "last": COMMAND})
    assert list(config.needs("r")) == ["c", "d"]
    assert list(config.needs("last")) == []


def test_a_default_of_a_field_is_not_an_input(tmp_path: Path) -> None:
    """Else a version with another field would do all stages again."""
    keys = []
    for stage in (COMMAND, COMMAND | {"inputs": [], "serve": None, "allow_no_change": True}):
        config = load(tmp_path, {"c": stage})
        found = Pipeline.open(tmp_path / "p", tmp_path / "pipeline.yaml", config)
        keys.append(found.stages["c"].folder.inputs)
    assert keys[0] == keys[1]


def test_the_base_of_an_ablation_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "ablation.yaml").write_text("base: base.yaml\n")
    keys = []
    for text in ("name: a\n", "name: b\n"):
        (tmp_path / "files" / "base.yaml").write_text(text)
        config = load(tmp_path, {"a": {"kind": "ablate", "file": "files/ablation.yaml"}})
        found = Pipeline.open(tmp_path / "p", tmp_path / "pipeline.yaml", config)
        keys.append(found.stages["a"].folder.inputs)
    assert keys[0] != keys[1]


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
