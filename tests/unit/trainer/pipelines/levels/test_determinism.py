"""Files that need not be the same in another run are declared, with the reason."""

from typing import Any

from assay_trainer.pipelines.levels.determinism import undetermined
from assay_trainer.pipelines.pipeline_config import PipelineConfig

RUN = ["config.json", "events.jsonl", "models/sft/model.safetensors", "tasks.jsonl"]
MEASURED = ["held/metrics.json", "held/samples.jsonl", "held/tasks.jsonl", "qa/held.txt"]
SETS = {"held": "held.jsonl"}


def declared(stages: dict[str, Any], outputs: dict[str, list[str]], **further: Any) -> Any:
    config = PipelineConfig.model_validate({"stages": stages, "gpus": 0, **further})
    return undetermined(config, outputs)


STAGES: dict[str, Any] = {
    "sft": {"kind": "train", "run": "run.yaml"},
    "before": {"kind": "evaluate", "policy": "stage:sft", "sets": SETS},
    "pairs": {"kind": "pairs", "evaluations": ["before"]},
    "grpo": {"kind": "train", "run": "run.yaml", "policy": "stage:sft"},
    "after": {"kind": "evaluate", "policy": "stage:grpo", "sets": SETS},
}
OUTPUTS = {
    "sft": RUN,
    "before": MEASURED,
    "pairs": ["manifest.json", "preferences.jsonl"],
    "grpo": [*RUN, "models/grpo/model.safetensors"],
    "after": MEASURED,
}


def test_what_tells_times_is_declared_and_results_are_not() -> None:
    found = declared(STAGES, OUTPUTS)
    assert set(found["sft"]) == {"config.json", "events.jsonl"}
    assert set(found["before"]) == {"held/metrics.json", "held/samples.jsonl"}
    assert found["pairs"] == {"manifest.json": "tells times, costs or paths"}


def test_what_follows_from_grpo_is_declared_whole() -> None:
    found = declared(STAGES, OUTPUTS)
    assert set(found["grpo"]) == set(OUTPUTS["grpo"])
    assert found["after"] == dict.fromkeys(MEASURED, "follows from grpo")


def test_on_a_gpu_only_commands_without_a_policy_are_deterministic() -> None:
    made = {"kind": "command", "words": ["tasks", "--output", "{folder}/tasks.jsonl"]}
    found = declared(
        {"made": made} | STAGES, {"made": ["tasks.jsonl"]} | OUTPUTS, gpus=1, price_per_hour=1
    )
    assert found["made"] == {}
    assert found["sft"] == dict.fromkeys(RUN, "a GPU computed it")
    assert set(found["pairs"]) == set(OUTPUTS["pairs"])


def test_a_command_that_asks_a_served_policy_is_declared() -> None:
    served = {"kind": "command", "serve": "stage:sft", "words": ["chat", "{server}"]}
    found = declared(STAGES | {"asked": served}, OUTPUTS | {"asked": ["episodes.jsonl"]})
    assert found["asked"] == {"episodes.jsonl": "a served policy was asked"}
