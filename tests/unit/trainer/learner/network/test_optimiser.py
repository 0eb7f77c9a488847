"""AdamW with states of 8 bits updates as AdamW does, and its checkpoints are exact."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cosine_similarity

from assay_shared.errors import ConfigError
from assay_trainer.config import NewPolicyConfig
from assay_trainer.learner.network import optimiser
from assay_trainer.learner.network.memory import Training, estimate_memory
from assay_trainer.learner.network.model import create_policy
from assay_trainer.learner.packs import Pack, pack_rows, rows
from assay_trainer.learner.updater import Updater
from tests.support.policies import TEXTS, TINY
from tests.unit.trainer.learner.test_updater import make_config, make_groups

NAMES: tuple[optimiser.OptimiserName, ...] = ("adamw_8bit", "adamw")
#: Half of the weights' tensors are large enough for states of 8 bits.
SIZES: NewPolicyConfig = TINY.model_copy(update={"hidden_size": 64})


def make_updater(name: str) -> tuple[Updater, list[Pack]]:
    model, _ = create_policy(SIZES, TEXTS, seed=0)
    updater = Updater(model, make_config(optimiser=name, learning_rate=1e-4))
    return updater, pack_rows(rows(make_groups()), updater.objective, 64)


def weights(updater: Updater) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in updater._parameters]).clone()


def take_steps(updater: Updater, packs: list[Pack], first: int, last: int) -> list[float]:
    steps = range(first, last + 1)
    return [updater.apply(step, updater.backward(packs)).moved_share for step in steps]


def states(updater: Updater) -> list[torch.Tensor]:
    """Return all states as plain tensors: codes, scales, moments in float32, numbers of steps."""
    found: list[torch.Tensor] = []

    def add(value: Any) -> None:
        if isinstance(value, dict):
            for one in value.values():
                add(one)
        else:
            found.append(value.clone())

    add(optimiser.state_of(updater._model, updater._optimiser))
    return found


def test_an_update_follows_the_optimiser_with_float32_states() -> None:
    pytest.importorskip("torchao")
    (small, packs), (large, _) = make_updater("adamw_8bit"), make_updater("adamw")
    start = weights(small)
    shares = take_steps(small, packs, 1, 5)
    take_steps(large, packs, 1, 5)
    assert min(shares) > 0.95
    assert {one.dtype for one in small._parameters} == {torch.float32}
    moved, expected = weights(small) - start, weights(large) - start
    assert cosine_similarity(moved, expected, dim=0) > 0.995
    assert float(moved.norm() / expected.norm()) == pytest.approx(1, abs=0.02)
    codes = [one for one in states(small) if one.dtype == torch.uint8]
    assert len(codes) > len(small._parameters) / 2, "two moments of most tensors"
    assert all(len(one.unique()) > 20 for one in codes)


def test_a_checkpoint_has_the_states_to_the_bit_and_training_continues_with_them(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torchao")
    (first, packs), (second, _) = make_updater("adamw_8bit"), make_updater("adamw_8bit")
    take_steps(first, packs, 1, 3)
    saved = states(first)
    writing = first.save(tmp_path)
    take_steps(first, packs, 4, 5)
    writing.result()
    second.load(tmp_path)
    read = states(second)
    assert len(read) == len(saved) > 50
    assert all(map(torch.equal, read, saved))
    take_steps(second, packs, 4, 5)
    assert torch.equal(weights(second), weights(first))


def test_the_plan_counts_the_states() -> None:
    pytest.importorskip("torchao")
    updater, packs = make_updater("adamw_8bit")
    take_steps(updater, packs, 1, 1)
    kept = sum(one.nbytes for one in states(updater) if one.dim())
    found, plain = (estimate_memory(updater._model, Training(10, optimiser=name)) for name in NAMES)
    assert found.optimiser == kept
    assert found.optimiser < 0.5 * plain.optimiser, "the large tensors take a quarter"
    assert found.checkpoint == found.weights + kept


def test_it_is_refused_before_a_run_where_it_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    optimiser.check_optimiser("adamw", 2)
    monkeypatch.setattr(optimiser, "find_spec", lambda name: object())
    optimiser.check_optimiser("adamw_8bit", 1)
    with pytest.raises(ConfigError, match=r"grpo.optimiser: .* one process, not in 2.*one GPU"):
        optimiser.check_optimiser("adamw_8bit", 2)
    monkeypatch.setattr(optimiser, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"grpo.optimiser: .*torchao .*pip install 'assay-rl"):
        optimiser.check_optimiser("adamw_8bit", 1)
