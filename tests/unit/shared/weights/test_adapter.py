"""Merging adapters: by hand on small numbers; other forms than plain LoRA are refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from assay_shared.errors import WeightsRefused
from assay_shared.weights.adapter import merge, merged, read_adapter
from tests.support.policies import make_policy_folder

A, B = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[10.0], [20.0]])
NAME = "base_model.model.model.layers.0.self_attn.q_proj"


def write(folder: Path, tensors: dict[str, torch.Tensor], **config: object) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    written = {"peft_type": "LORA", "r": 4, "lora_alpha": 8} | config
    (folder / "adapter_config.json").write_text(json.dumps(written))
    return folder


def plain(a: torch.Tensor = A, b: torch.Tensor = B) -> dict[str, torch.Tensor]:
    return {f"{NAME}.lora_A.weight": a, f"{NAME}.lora_B.weight": b}


def test_the_product_is_added_and_rounded_once() -> None:
    weight = torch.ones(2, 3, dtype=torch.bfloat16)
    found = merged("w", weight, A, B, scale=0.5)
    assert found.dtype == torch.bfloat16
    assert found.tolist() == [[6.0, 11.0, 16.0], [11.0, 21.0, 31.0]]


def test_rank_stabilised_adapters_have_their_own_scale(tmp_path: Path) -> None:
    assert read_adapter(write(tmp_path / "plain", plain()))[1] == 2.0
    assert read_adapter(write(tmp_path / "rs", plain(), use_rslora=True))[1] == 4.0


@pytest.mark.parametrize(
    ("tensors", "config", "message"),
    [
        (plain(), {"use_dora": True}, "use_dora True"),
        (plain(), {"bias": "all"}, "bias 'all'"),
        (plain(), {"modules_to_save": ["lm_head"]}, "modules_to_save"),
        (plain(), {"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        (plain(), {"init_lora_weights": "pissa_niter_4"}, "init_lora_weights 'pissa_niter_4'"),
        (plain(), {"init_lora_weights": "olora"}, "init_lora_weights 'olora'"),
        (plain(), {"alora_invocation_tokens": [1, 2]}, "alora_invocation_tokens"),
        (plain(), {"an_entry_of_tomorrow": True}, "an_entry_of_tomorrow True"),
        ({f"{NAME}.lora_A.weight": A}, {}, r"incomplete: .*q_proj.lora_A.weight has no lora_B"),
        ({f"{NAME}.lora_B.weight": B}, {}, r"incomplete: .*q_proj.lora_B.weight has no lora_A"),
        (plain() | {f"{NAME}.lora_magnitude_vector": A.clone()}, {}, "magnitude_vector"),
        ({}, {}, "is empty"),
    ],
)
def test_more_than_plain_lora_is_refused_by_name(
    tmp_path: Path, tensors: dict[str, torch.Tensor], config: dict[str, object], message: str
) -> None:
    with pytest.raises(WeightsRefused, match=message):
        read_adapter(write(tmp_path / "adapter", tensors, **config))


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    make_policy_folder(tmp_path / "base")
    narrow = write(tmp_path / "narrow", plain())
    with pytest.raises(WeightsRefused, match=r"is \[32, 32\], and the adapter's is \[2, 3\]"):
        merge(tmp_path / "base", narrow, tmp_path / "into1")
    deep = {name.replace("layers.0", "layers.9"): tensor for name, tensor in plain().items()}
    with pytest.raises(WeightsRefused, match=r"the base has no model.layers.9"):
        merge(tmp_path / "base", write(tmp_path / "deep", deep), tmp_path / "into2")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "adapter", plain())
    (folder / "adapter_model.safetensors").write_bytes(b"short")
    with pytest.raises(WeightsRefused, match="is not a readable adapter"):
        read_adapter(folder)
