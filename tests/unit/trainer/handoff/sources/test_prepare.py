"""A run's GRPO checkpoint and an adapter as folders: their weights are those of the training."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from assay_shared.errors import WeightsRefused
from assay_shared.settings.run_file import load_config
from assay_shared.weights.checkpoint import weight_files
from assay_trainer.config import RunConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.handoff.sources.prepare import prepare
from assay_trainer.handoff.sources.recognise import recognise
from assay_trainer.handoff.sources.source import SourceKind
from assay_trainer.learner import checkpoint
from assay_trainer.learner.network.adapters import add_adapter
from assay_trainer.learner.network.model import load_policy
from assay_trainer.learner.updater import Updater
from assay_trainer.service.record import create_run
from assay_trainer.weights.adapter import bare
from assay_trainer.weights.folder import publish_policy
from tests.support.policies import make_policy_folder

DEMO = Path(__file__).parents[5] / "services/trainer/assay_trainer/service/demo.yaml"
LORA = {"rank": 4, "alpha": 8}


def read(folder: Path) -> dict[str, torch.Tensor]:
    return {name: one for file in weight_files(folder) for name, one in load_file(file).items()}


def make_checkpoint(root: Path, *, lora: bool) -> tuple[Path, Any]:
    """Return a run's GRPO checkpoint, written by its own updater, and the model in memory."""
    overrides = (f"policy.lora={LORA}",) if lora else ()
    config = load_config(RunConfig, DEMO, overrides)
    run = create_run(root / "run", config)
    initial = run.path / "models" / "initial"
    make_policy_folder(initial)
    checkpoint.seal(initial)
    model, _ = load_policy(initial)
    if config.policy.lora is not None:
        model = bare(add_adapter(model, config.policy.lora, config.seed, torch.device("cpu")))
    with torch.no_grad():
        for one in model.parameters():
            if one.requires_grad:
                one.add_(0.01 * torch.randn_like(one))
    checkpoints = run.checkpoints / "grpo"
    Updater(model, GRPOConfig(steps=4)).save(checkpoint.folder_of(checkpoints, 3)).result()
    checkpoint.complete(checkpoints, 3)
    return checkpoint.folder_of(checkpoints, 3), model


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True], ids=["whole", "adapter"])
def test_a_grpo_checkpoint_has_the_weights_in_training(tmp_path: Path, lora: bool) -> None:
    folder, model = make_checkpoint(tmp_path, lora=lora)
    source = recognise(folder)
    assert (source.kind, source.step) == (SourceKind.STATE, 3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    found = read(prepare(source, scratch, 60.0).folder)
    _, tokenizer = load_policy(tmp_path / "run" / "models" / "initial")
    publish_policy(model, tokenizer, tmp_path / "expected")
    expected = read(tmp_path / "expected")
    assert found.keys() == expected.keys()
    assert all(found[name].equal(one) for name, one in expected.items())


def test_a_changed_grpo_checkpoint_is_refused(tmp_path: Path) -> None:
    folder, _ = make_checkpoint(tmp_path, lora=False)
    with (folder / ".metadata").open("ab") as file:
        file.write(b"more")
    with pytest.raises(WeightsRefused, match=r"\.metadata is not what was written"):
        recognise(folder)


class Attack:
    """A pickle of it runs a program when it is read without care."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        import os

        return os.system, (f"touch {self._mark}",)


@pytest.mark.slow
def test_metadata_that_calls_a_program_is_refused_and_calls_nothing(tmp_path: Path) -> None:
    """Even where its author wrote digests that fit."""
    import pickle

    folder, _ = make_checkpoint(tmp_path, lora=False)
    (folder / ".metadata").write_bytes(pickle.dumps(Attack(tmp_path / "mark")))
    checkpoint.complete(folder.parent, 3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(WeightsRefused, match=r"\.metadata names (posix|os)\.system"):
        prepare(recognise(folder), scratch, 60.0)
    assert not (tmp_path / "mark").exists()


@pytest.mark.slow
def test_a_merged_adapter_answers_as_the_base_with_the_adapter(tmp_path: Path) -> None:
    base, adapter, scratch = (tmp_path / name for name in ("base", "adapter", "scratch"))
    make_policy_folder(base)
    scratch.mkdir()
    loaded: Any = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    wrapped: Any = get_peft_model(loaded, LoraConfig(r=4, target_modules=["q_proj", "down_proj"]))
    with torch.no_grad():
        for name, one in wrapped.named_parameters():
            if "lora_" in name:
                one.normal_(std=0.3)
    wrapped.eval().save_pretrained(adapter)
    folder = prepare(recognise(adapter), scratch, 60.0).folder
    merged: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, wrapped(ids).logits, rtol=1e-4, atol=1e-4)
        plain = AutoModelForCausalLM.from_pretrained(base, dtype="auto").eval()
        assert (plain(ids).logits - merged(ids).logits).abs().max() > 0.1


def test_an_adapter_of_another_base_is_refused_by_name(tmp_path: Path) -> None:
    from tests.support.policies import SERVABLE

    base, other, adapter = (tmp_path / name for name in ("base", "other", "adapter"))
    make_policy_folder(base)
    make_policy_folder(other, config=SERVABLE)
    loaded: Any = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
    get_peft_model(loaded, LoraConfig(r=4, target_modules=["q_proj"])).save_pretrained(str(adapter))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(WeightsRefused, match="q_proj.*this adapter is another model's"):
        prepare(recognise(adapter, base=other), scratch, 60.0)
    shutil.rmtree(other)
