"""As few layers compute their activations twice as memory allows, and no gradient changes."""

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from transformers import Gemma3TextConfig, GPT2Config, LlamaConfig, MixtralConfig

from assay_trainer.config import LoRAConfig
from assay_trainer.learner import follower
from assay_trainer.learner.network import recomputation
from assay_trainer.learner.network.adapters import add_adapter
from assay_trainer.learner.network.memory import estimate_memory, saved_by_a_layer
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.learner.packs import Pack, pack_rows, rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.updater import Updater, make_updater
from assay_trainer.weights.adapter import bare
from assay_trainer.weights.folder import publish_policy
from tests.support.architectures import SIZES, random_model
from tests.support.policies import TEXTS, TINY
from tests.support.ranks import processes
from tests.unit.trainer.learner.test_updater import make_config, make_groups

NUM_LAYERS = 6
DEEP = TINY.model_copy(update={"num_layers": NUM_LAYERS})
PLENTY = 2**40


def free(num_bytes: int) -> AbstractContextManager[object]:
    """Plant a GPU's free memory."""
    return patch.object(recomputation, "free_bytes", return_value=num_bytes)


def make_updater_of(seed: int = 0) -> tuple[Updater, list[Pack]]:
    updater = Updater(create_policy(DEEP, TEXTS, seed=seed)[0], make_config())
    return updater, pack_rows(rows(make_groups()), updater.objective, 10_000)


def needed_by(updater: Updater, packs: list[Pack]) -> tuple[int, int]:
    """Return the bytes of a first update that keeps all activations, and a layer's saving."""
    training = updater._training(packs)
    found = estimate_memory(updater._model, training)
    needed = found.gradients + found.optimiser + found.activations + found.logits
    return needed, saved_by_a_layer(updater._model, training)


def backward(updater: Updater, packs: list[Pack]) -> tuple[torch.Tensor, int]:
    """Return the whole gradient, and the bytes that were kept for it."""
    kept: dict[int, int] = {}
    weights = {one.data_ptr() for one in updater._model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        updater.backward(packs)
    grads = [one.grad.flatten() for one in updater._parameters if one.grad is not None]
    return torch.cat(grads), sum(kept.values())


@pytest.mark.parametrize("num_twice", range(NUM_LAYERS + 1))
def test_the_gradient_is_the_same_however_many_layers_compute_twice(num_twice: int) -> None:
    updater, packs = make_updater_of()
    expected, most = backward(updater, packs)
    updater, packs = make_updater_of()
    needed, saved = needed_by(updater, packs)
    with free(needed - num_twice * saved):
        found, kept = backward(updater, packs)
    assert updater._recomputation.num_layers == num_twice
    assert float((found - expected).norm() / expected.norm()) < 1e-6
    if num_twice:
        assert kept < most
        assert 0.5 < (most - kept) / (num_twice * saved) < 2


def test_a_byte_too_few_costs_one_layer_more() -> None:
    updater, packs = make_updater_of()
    needed, saved = needed_by(updater, packs)
    with free(needed - 2 * saved - 1):
        updater.backward(packs)
    assert updater._recomputation.num_layers == 3


def test_each_update_chooses_again() -> None:
    """The optimiser's states exist after the first; another step has longer packs."""
    updater, packs = make_updater_of()
    with free(PLENTY):
        facts = updater.apply(1, updater.backward(packs))
    assert facts.recomputed_layers == 0
    needed, saved = needed_by(updater, packs)
    moments = estimate_memory(updater._model, updater._training(packs)).optimiser
    for num_bytes, expected in ((needed - moments, 0), (needed - moments - saved, 1), (0, 6)):
        with free(num_bytes):
            facts = updater.apply(2, updater.backward(packs))
        assert facts.recomputed_layers == expected
    with free(PLENTY):
        updater.backward(packs)
    assert updater._recomputation.num_layers == 0


def test_where_memory_runs_out_all_layers_compute_twice_for_good() -> None:
    updater, packs = make_updater_of()
    plain, attempts = Updater._backward, []

    def scarce(self: Updater, pack: Pack) -> torch.Tensor:
        attempts.append(self._recomputation.num_layers)
        if len(attempts) == 1:
            raise torch.OutOfMemoryError("planted")
        return plain(self, pack)

    with free(PLENTY), patch.object(Updater, "_backward", scarce):
        updater.backward(packs)
        updater.backward(packs)
    assert attempts == [0, NUM_LAYERS, NUM_LAYERS]


def test_an_adapters_model_needs_no_memory_for_its_frozen_weights() -> None:
    model = create_policy(DEEP, TEXTS, seed=0)[0]
    adapted = bare(add_adapter(model, LoRAConfig(rank=2), 0, torch.device("cpu")))
    updater = Updater(adapted, make_config())
    packs = pack_rows(rows(make_groups()), updater.objective, 10_000)
    whole, _ = make_updater_of()
    least, saved = needed_by(updater, packs)
    assert least < needed_by(whole, packs)[0]
    with free(least - saved):
        updater.backward(packs)
    assert updater._recomputation.num_layers == 1
    assert all(one.grad is not None for one in updater._parameters)


OTHERS = {
    "llama": LlamaConfig(**SIZES, vocab_size=320),
    "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=128, vocab_size=320),
    "windows": Gemma3TextConfig(**SIZES, vocab_size=320, sliding_window=4, head_dim=16),
    "mixture": MixtralConfig(**SIZES, vocab_size=320, num_local_experts=2),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_cannot_be_estimated_is_all_or_nothing(kind: str) -> None:
    """A mixture keeps more than a dense model, and so does attention that is not by packs."""
    updater = Updater(random_model(OTHERS[kind]), make_config())
    packs = pack_rows(rows(make_groups()), updater.objective, 10_000)
    with free(0):
        updater.backward(packs)
    assert updater._recomputation.num_layers == {"llama": 2, "gpt2": 2}.get(kind, 0)
    ranks = updater._ranks
    with patch.multiple(ranks, size=2, max=lambda own_1: own_1), free(PLENTY):
        updater._recomputation.choose(updater._training(packs), has_moments=False)
    assert updater._recomputation.num_layers == {"llama": 0, "gpt2": 0}.get(kind, 2)


#: Free bytes of rank 0 and of its follower: the second allows less.
FREE = {"lead": PLENTY, "follow": 0}


def lead(policy: Path) -> None:
    """Be rank 0: write the gradient's norm and the layers that computed twice."""
    ranks = Ranks()
    updater = make_updater(load_policy(policy)[0], make_config(), ranks)
    packs = pack_rows(rows(make_groups()), updater.objective, 20)
    facts = updater.apply(1, updater.backward(packs))
    ranks.end()
    found = [facts.gradient.grad_norm, facts.recomputed_layers]
    policy.with_name("found.json").write_text(json.dumps(found))


def test_the_rank_with_the_least_memory_decides_for_all(tmp_path: Path) -> None:
    publish_policy(*create_policy(DEEP, TEXTS, seed=0), tmp_path / "policy")
    updater, _ = make_updater_of()
    alone = updater.backward(pack_rows(rows(make_groups()), updater.objective, 20))
    command = (sys.executable, "-m", __name__)
    both = [(*command, role, str(tmp_path / "policy")) for role in FREE]
    with processes(both) as (first, second):
        said = first.communicate(timeout=400)[0] + second.communicate(timeout=120)[0]
    assert (first.returncode, second.returncode) == (0, 0), said
    norm, num_twice = json.loads((tmp_path / "found.json").read_text())
    assert num_twice == NUM_LAYERS
    assert norm == pytest.approx(alone.grad_norm, rel=1e-4)


if __name__ == "__main__":
    role, folder = sys.argv[1:]
    with patch.object(recomputation, "free_bytes", return_value=FREE[role]):
        lead(Path(folder)) if role == "lead" else follower.main()
