"""The update on a GPU compared with the same on the CPU: bf16 and kernels change little."""

import pytest
import torch

from assay_trainer.learner.packs import rows
from tests.unit.trainer.learner.test_updater import (
    FORMS,
    distance,
    gradient,
    make_config,
    make_groups,
    make_model,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tokens_per_pack", [10_000, 40])
def test_a_gpu_gives_the_gradient_of_a_cpu(
    monkeypatch: pytest.MonkeyPatch, form: str, tokens_per_pack: int
) -> None:
    config = make_config(**FORMS[form])
    step_rows = rows(make_groups((0.0, 0.0, 0.0)))
    reference = make_model(seed=3) if config.kl_weight else None
    facts, found = gradient(make_model(), step_rows, config, tokens_per_pack, reference)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    plain, expected = gradient(make_model(), step_rows, config, tokens_per_pack, reference)
    on_cpu = {name: one.cpu() for name, one in found.items()}
    assert distance(on_cpu, expected) < 0.05
    assert facts.loss == pytest.approx(plain.loss, rel=0.05, abs=0.01)
