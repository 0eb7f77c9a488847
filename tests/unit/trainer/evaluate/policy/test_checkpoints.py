"""A run's checkpoints of shards and adapters, as folders that inference can serve."""

import json
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from assay_shared.errors import WeightsRefused
from assay_trainer.config import LoRAConfig, RunConfig
from assay_trainer.evaluate.policy.checkpoints import servable_folder
from assay_trainer.evaluate.policy.places import find_policies
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner import checkpoint
from assay_trainer.learner.network.adapters import add_adapter
from assay_trainer.learner.network.model import load_policy
from assay_trainer.learner.updater import Updater
from assay_trainer.weights.adapter import bare
from assay_trainer.weights.folder import publish_policy
from tests.support.policies import make_policy_folder


def make_run(path: Path, lora: LoRAConfig | None) -> Path:
    """Return a run with the model of SFT and a checkpoint of GRPO, whose weights were moved."""
    make_policy_folder(path / "models" / "sft")
    config = RunConfig.model_validate(
        {
            "policy": {"folder": "m", "lora": lora and lora.model_dump()},
            "data": {name: {"kind": "generated", "num_tasks": 1} for name in ("train", "held_out")},
        }
    )
    (path / "config.json").write_text(json.dumps({"config": config.model_dump(mode="json")}))
    (path / "events.jsonl").write_text("")
    model, tokenizer = load_policy(path / "models" / "sft")
    trained = model
    if lora is not None:
        trained = add_adapter(model, lora, 7, torch.device("cpu"))  # type: ignore[assignment]
    move(bare(trained))
    updater = Updater(bare(trained), GRPOConfig(steps=1))
    folder = checkpoint.folder_of(path / "checkpoints" / "grpo", 5)
    updater.save(folder).result()
    checkpoint.complete(path / "checkpoints" / "grpo", 5)
    publish_policy(bare(trained), tokenizer, path / "expected")
    return path


def move(model: PreTrainedModel) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        for one in model.parameters():
            if one.requires_grad:
                one.add_(0.1 * torch.randn_like(one))


def weights_in(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_policy(folder)[0].state_dict())


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, LoRAConfig(rank=4)])
def test_a_checkpoint_of_grpo_is_served_as_its_whole_model(
    lora: LoRAConfig | None, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", lora)
    (place,) = find_policies(f"{run}:5", None)

    folder = servable_folder(place, tmp_path / "scratch")

    assert folder.is_relative_to(tmp_path / "scratch")
    found, expected = weights_in(folder), weights_in(run / "expected")
    first = weights_in(run / "models" / "sft")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not all(torch.equal(found[name], first[name]) for name in expected)
    facts = place.facts(folder)
    assert (facts.step, facts.kind) == (5, "run")


@pytest.mark.slow
def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", None)
    (place,) = find_policies(f"{run}:5", None)
    (shard,) = place.folder.glob("*.distcp")
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")

    with pytest.raises(WeightsRefused, match="is not what was written"):
        servable_folder(place, tmp_path / "scratch")


@pytest.mark.parametrize("name", ["run", "run:sft", "run/models/sft"])
def test_a_damaged_model_of_a_stage_is_refused(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    model = run / "models" / "sft"
    make_policy_folder(model)
    (run / "config.json").write_text("{}")
    (run / "events.jsonl").write_text("")
    checkpoint.seal(model)
    (place,) = find_policies(str(tmp_path / name), None)
    assert servable_folder(place, tmp_path / "scratch") == model
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(WeightsRefused, match=r"model\.safetensors is not what was written"):
        servable_folder(place, tmp_path / "scratch")


@pytest.mark.slow
def test_a_checkpoint_on_a_damaged_model_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", LoRAConfig(rank=4))
    model = run / "models" / "sft"
    checkpoint.seal(model)
    (place,) = find_policies(f"{run}:5", None)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(WeightsRefused, match=r"model\.safetensors is not what was written"):
        servable_folder(place, tmp_path / "scratch")


def test_a_model_is_served_where_it_lies(tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "m")
    (place,) = find_policies(str(tmp_path / "m"), None)
    assert servable_folder(place, tmp_path / "scratch") == (tmp_path / "m").resolve()
