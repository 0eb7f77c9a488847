"""The update on a GPU compared with the same on the CPU: bf16 and kernels change little."""

import pytest
import torch

from assay_trainer.learner.packs import Pack, pack_rows, rows
from assay_trainer.learner.updater import Updater
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


def test_an_attempt_that_ran_out_of_memory_is_not_in_the_most_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, taken = Updater._backward, 2**30

    def scarce(self: Updater, pack: Pack) -> torch.Tensor:
        if not self._model.is_gradient_checkpointing:
            torch.empty(taken, dtype=torch.uint8, device="cuda")
            raise torch.OutOfMemoryError("planted")
        return plain(self, pack)

    monkeypatch.setattr(Updater, "_backward", scarce)
    updater = Updater(make_model(), make_config())
    packs = pack_rows(rows(make_groups()), updater.objective, 40)
    most = updater.apply(1, updater.backward(packs)).memory_bytes
    assert most is not None
    assert most < taken
