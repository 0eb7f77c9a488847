"""The estimate of memory against what a real update keeps."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from assay_trainer.config import LoRAConfig
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.network.adapters import add_adapter
from assay_trainer.learner.network.memory import Training, estimate_memory, num_trained
from assay_trainer.learner.network.model import create_policy
from assay_trainer.learner.packs import pack_rows, unweighted_rows
from assay_trainer.learner.updater import Updater
from assay_trainer.weights.served_dtype import keep_served_dtypes
from tests.support.fakes import make_scored_group
from tests.support.policies import TEXTS, TINY


def test_an_update_on_a_cpu_keeps_what_the_estimate_says() -> None:
    model, _ = create_policy(TINY.model_copy(update={"num_layers": 6}), TEXTS, seed=0)
    updater = Updater(model, GRPOConfig(steps=1))
    rows = [row for n in range(200) for row in unweighted_rows(make_scored_group(f"{n}", 0.0))]
    packs = pack_rows(rows, updater.objective, 10_000)
    (tokens,) = {len(pack.token_ids_T) for pack in packs}
    kept: dict[int, int] = {}
    weights = {one.data_ptr() for one in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        gradient = updater.backward(packs)
    found = estimate_memory(model, Training(tokens))
    assert 0.5 < sum(kept.values()) / found.activations < 2
    gradients = sum(one.numel() * one.itemsize for one in model.parameters())
    updater.apply(1, gradient)
    states = [s for one in updater._optimiser.state.values() for s in one.values() if s.dim()]
    assert found.gradients == found.weights == gradients
    assert found.optimiser == sum(one.numel() * one.itemsize for one in states)
    assert found.publication == found.reference == found.gathered == 0
    assert found.checkpoint == 3 * gradients
    assert found.total == 7 * gradients + found.activations + found.logits


def test_cards_share_the_weights_and_rank_0_has_a_bucket_to_publish() -> None:
    model, _ = create_policy(TINY, TEXTS, seed=0)
    model.bfloat16()
    keep_served_dtypes(model)
    num = model.num_parameters()
    one, four = (
        estimate_memory(
            model.float(),
            Training(100, cards, on_gpu=True, has_reference=True, is_twice=cards > 1),
        )
        for cards in (1, 4)
    )
    assert one.weights == one.gradients == one.reference == 4 * num
    assert four.weights == four.gradients == four.reference == num
    assert (one.optimiser, four.optimiser) == (8 * num, 2 * num)
    assert one.gathered == 2 * num
    assert one.publication == four.publication == 4 * num, "the model fits a bucket"
    assert one.checkpoint == four.checkpoint == 0
    assert four.gathered < one.gathered
    assert four.activations < one.activations
    for parameter in model.model.layers.parameters():
        parameter.requires_grad_(False)
    part = estimate_memory(model, Training(100, on_gpu=True))
    assert part.gradients < one.gradients
    assert part.reference == 0


@pytest.mark.parametrize("targets", ["all-linear", ("q_proj", "down_proj")])
def test_an_adapters_weights_are_counted_as_peft_makes_them(targets: object) -> None:
    lora = LoRAConfig.model_validate({"rank": 4, "targets": targets})
    model, _ = create_policy(TINY, TEXTS, seed=0)
    base, expected = model.num_parameters(), num_trained(model, lora)
    found = estimate_memory(model, Training(100, lora=lora))
    add_adapter(model, lora, 0, torch.device("cpu"))
    assert num_trained(model) == expected
    updater = Updater(model, GRPOConfig(steps=1))
    rows = unweighted_rows(make_scored_group("k", 0.0, 1.0))
    updater.apply(1, updater.backward(pack_rows(rows, updater.objective, 10_000)))
    states = [s for one in updater._optimiser.state.values() for s in one.values() if s.dim()]
    assert found.optimiser == sum(one.numel() * one.itemsize for one in states)
    assert found.gradients == 4 * expected
    assert found.weights == 4 * (base + expected)


def test_an_adapter_needs_no_second_model_and_every_card_has_the_base() -> None:
    model, _ = create_policy(TINY, TEXTS, seed=0)
    model.bfloat16()
    keep_served_dtypes(model)
    num, lora = model.num_parameters(), LoRAConfig(rank=4)
    own = num_trained(model, lora)
    two = Training(100, 2, on_gpu=True, has_reference=True, lora=lora)
    found = estimate_memory(model.float(), two)
    assert found.weights == 2 * num + 4 * own
    assert found.publication == found.reference == 0
    assert (found.gradients, found.optimiser, found.gathered) == (4 * own, 8 * own, 2 * own)
    few = estimate_memory(model, Training(100, 2, on_gpu=True, lora=LoRAConfig(rank=4, nf4=True)))
    linear = sum(one.weight.numel() for one in model.model.modules() if hasattr(one, "in_features"))
    assert few.weights == found.weights - 2 * linear + int(0.5625 * linear)


def test_the_heads_logits_come_in_tiles() -> None:
    model, _ = create_policy(TINY, TEXTS, seed=0)
    words = model.config.vocab_size
    assert estimate_memory(model, Training(100)).logits == 9 * 4 * 100 * words
    of_gpu = [estimate_memory(model, Training(tokens, on_gpu=True)) for tokens in (100, 10_000)]
    assert [one.logits for one in of_gpu] == [2 * 100 * words, 2 * 4096 * words]
