"""The model of a stage: read as its training needs it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from assay_trainer.config import LoRAConfig
from assay_trainer.learner.network.model import create_policy
from assay_trainer.pipeline.policy import stage_model
from tests.support.policies import TEXTS, TINY


@pytest.mark.parametrize(
    ("lora", "device", "dtype"),
    [
        (None, "cuda", torch.float32),
        (LoRAConfig(), "cuda", torch.bfloat16),
        (LoRAConfig(nf4=True), "cuda", torch.bfloat16),
        (LoRAConfig(), "cpu", torch.float32),
    ],
)
def test_an_adapters_base_takes_two_bytes_a_weight_on_its_way_to_a_gpu(
    tmp_path: Path, lora: LoRAConfig | None, device: str, dtype: torch.dtype
) -> None:
    run: Any = SimpleNamespace(
        folder=SimpleNamespace(path=tmp_path),
        config=SimpleNamespace(policy=SimpleNamespace(lora=lora)),
        ranks=SimpleNamespace(device=torch.device(device)),
    )
    model, tokenizer = create_policy(TINY, TEXTS, seed=0)
    loaded, _ = stage_model(run, "initial", lambda: (model.bfloat16(), tokenizer))
    assert {one.dtype for one in loaded.parameters()} == {dtype}
