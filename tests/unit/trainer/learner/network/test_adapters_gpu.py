"""An adapter on a GPU: compared with the same on the CPU, and over a base in 4 bits."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from assay_trainer.config import LoRAConfig
from assay_trainer.learner.network.adapters import add_adapter
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.updater import Updater
from assay_trainer.weights.adapter import adapter_off, bare
from assay_trainer.weights.folder import publish_policy
from assay_trainer.weights.publisher import probe
from tests.support.policies import SERVABLE, TEXTS
from tests.unit.trainer.learner.network.test_adapters import CPU, adapted, logprobs, packs_of
from tests.unit.trainer.learner.test_updater import Gradient, distance, make_config

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

IDS = list(range(10, 40))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model, tokenizer = create_policy(SERVABLE, TEXTS, seed=0)
    publish_policy(model.bfloat16(), tokenizer, tmp_path / "base")
    return tmp_path / "base"


def first_gradient(model: PreTrainedModel) -> Gradient:
    updater = Updater(model, make_config(kl_weight=0.1))
    updater.backward(packs_of(updater))
    named = model.named_parameters()
    return {name: p.grad.cpu() for name, p in named if p.grad is not None}


def check_published(model: PreTrainedModel, folder: Path, into: Path) -> None:
    """Train some steps, and compare the probe with the published folder in bfloat16."""
    updater = Updater(model, make_config(learning_rate=0.02, kl_weight=0.1))
    for step in (1, 2, 3):
        updater.apply(step, updater.backward(packs_of(updater)))
    publish_policy(model, load_policy(folder)[1], into)
    served = load_policy(into)[0].bfloat16()
    ids_T = torch.tensor(IDS)
    with torch.no_grad():
        found_TV = served(ids_T[None]).logits[0, :-1].float().log_softmax(-1)
    expected_T = found_TV.gather(1, ids_T[1:, None])[:, 0]
    found_T = torch.tensor(probe(model, IDS).logprobs)
    assert torch.allclose(found_T, expected_T, atol=0.05)


def test_a_gpu_gives_the_gradient_of_a_cpu(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gpu = bare(add_adapter(load_policy(folder)[0], LoRAConfig(rank=4, alpha=8), 0, gpu()))
    trained = {one.dtype for one in on_gpu.parameters() if one.requires_grad}
    frozen = {one.dtype for one in on_gpu.parameters() if not one.requires_grad}
    assert (trained, frozen) == ({torch.float32}, {torch.bfloat16})
    found = first_gradient(on_gpu)
    check_published(on_gpu, folder, tmp_path / "merged")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    expected = first_gradient(adapted(folder))
    assert distance(found, expected) < 0.05


def test_the_served_base_of_4_bits_is_what_is_trained(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    start = load_policy(folder)[0]
    model = bare(add_adapter(start, LoRAConfig(rank=4, nf4=True), 0, gpu()))
    assert {one.dtype for one in model.parameters() if one.requires_grad} == {torch.float32}
    with adapter_off(model):
        publish_policy(model, load_policy(folder)[1], tmp_path / "base4")
    served = load_policy(tmp_path / "base4")[0]
    assert not torch.equal(logprobs(served), logprobs(start))
    ids_1T = torch.tensor([IDS], device=gpu())
    with torch.no_grad():
        own = model.eval()(ids_1T).logits.float().log_softmax(-1).cpu()
        expected = served(ids_1T.to(CPU)).logits.log_softmax(-1)
    assert torch.allclose(own, expected, atol=0.05)
    check_published(model, folder, tmp_path / "merged")


def gpu() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())
