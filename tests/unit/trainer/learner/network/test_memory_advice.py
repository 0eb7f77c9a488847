"""What a run out of memory is told to change."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from assay_trainer.config import RunConfig
from assay_trainer.learner.network.memory_advice import (
    MemoryExhausted,
    memory_told,
    savings_of,
)
from tests.support.policies import make_policy_folder

DATA = {
    "train": {"kind": "generated", "num_tasks": 9},
    "held_out": {"kind": "generated", "num_tasks": 9},
}


def config(**sections: Any) -> RunConfig:
    return RunConfig.model_validate({"policy": {"new": {}}, "data": DATA} | sections)


def large_model() -> Qwen2ForCausalLM:
    """The sizes of a model of some 7B weights, without them."""
    sizes = Qwen2Config(
        hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28
    )
    with torch.device("meta"):
        return Qwen2ForCausalLM(sizes)


def test_a_whole_model_is_told_of_an_adapter_first_and_of_smaller_passes() -> None:
    wanted = config(grpo={"steps": 9, "kl_weight": 0.01, "tokens_per_pack": 16384})
    found = savings_of(wanted, large_model(), on_gpu=True)
    changes = [one.change for one in found]
    assert changes[0] == "policy.lora={rank: 16}"
    assert {"grpo.tokens_per_pack=8192", "grpo.optimiser=adamw_8bit", "grpo.kl_weight=0"} <= {
        *changes
    }
    assert all(0 < one.saved < one.total for one in found)
    assert [one.saved for one in found] == sorted((one.saved for one in found), reverse=True)


def test_an_adapter_is_told_of_4_bits_and_of_rows() -> None:
    lora = {"new": {}, "lora": {"rank": 64}}
    wanted = config(policy=lora, sft={"steps": 9, "batch_size": 8})
    changes = [one.change for one in savings_of(wanted, large_model(), on_gpu=True)]
    assert changes[0] == "policy.lora.nf4=true"
    assert "sft.micro_batch_size=4" in changes


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_the_error_names_the_settings(tmp_path: Path, error: RuntimeError) -> None:
    make_policy_folder(tmp_path / "initial")
    wanted = config(sft={"steps": 9, "batch_size": 512})
    with (
        pytest.raises(MemoryExhausted, match="out of memory: ") as told,
        memory_told(wanted, tmp_path),
    ):
        raise error
    assert "sft.micro_batch_size=256 saves" in (told.value.hint or "")


def test_before_there_is_a_model_the_settings_are_named_without_sizes(tmp_path: Path) -> None:
    with pytest.raises(MemoryExhausted) as told, memory_told(config(), tmp_path):
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert "micro_batch_size" in (told.value.hint or "")


def test_other_errors_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shapes differ"), memory_told(config(), tmp_path):
        raise RuntimeError("shapes differ")
