"""Rows and packs: tokens read, tokens learnt, and their weights."""

import time
from dataclasses import replace

import pytest
import torch

from assay_shared.types import Normalisation, PolicyVersion, RolloutSpan
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.objective import Objective
from assay_trainer.learner.packs import AnswerRow, pack_rows, rows, shares
from tests.support.fakes import POLICY, make_scored_group

DAPO = Objective.of(GRPOConfig(steps=1))


def test_only_scored_samples_become_rows() -> None:
    groups = [make_scored_group("a", 1.0, None, 0.0), make_scored_group("b", None, 0.5, 1.0)]
    found = rows(groups, Normalisation.NONE)
    assert [row.advantage for row in found] == [0.5, -0.5, -0.25, 0.25]


def two_rows() -> list[AnswerRow]:
    first, second = rows([make_scored_group("a", 1.0, 0.0)], Normalisation.NONE)
    changes = {
        "token_ids": (7, 8, 9, 4, 3),
        "logprobs": (-1.0, -2.0, 0.0, 0.0, -3.0),
        "spans": (
            RolloutSpan(policy=POLICY, num_tokens=2),
            RolloutSpan(policy=None, num_tokens=2),
            RolloutSpan(policy=POLICY, num_tokens=1),
        ),
    }
    longer = replace(
        second, prompt_token_ids=(9,), rollout=second.rollout.model_copy(update=changes)
    )
    return [first, longer]


def test_a_pack_has_its_sequences_one_after_another() -> None:
    (pack,) = pack_rows(two_rows(), DAPO, 100)
    assert pack.token_ids_T.tolist() == [9, 7, 8, 9, 4, 3, 1, 2, 3, 5, 6], "the longer one first"
    assert pack.position_ids_T.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4]
    assert (pack.bounds_S.tolist(), pack.max_length) == ([0, 6, 11], 6)
    assert pack.places_L.tolist() == [1, 2, 5, 9, 10], "an observation is read and not learnt"
    loss = pack.loss
    assert loss.old_logprobs_L.tolist() == [-1.0, -2.0, -3.0, -0.5, -0.25]
    assert loss.advantages_L.tolist() == [-0.5] * 3 + [0.5] * 2
    assert loss.sequence_L.tolist() == [0, 0, 0, 1, 1]
    assert loss.weights_L.tolist() == pytest.approx([1 / 5] * 5)


@pytest.mark.parametrize("tokens_per_pack", [1, 6, 7, 11])
def test_rows_are_cut_into_packs_and_the_weights_stay(tokens_per_pack: int) -> None:
    packs = pack_rows(two_rows(), DAPO, tokens_per_pack)
    assert len(packs) == (1 if tokens_per_pack == 11 else 2)
    assert sum(float(pack.loss.weights_L.sum()) for pack in packs) == pytest.approx(1.0)


def test_tokens_of_flat_groups_count_in_the_weights() -> None:
    both = [make_scored_group("a", 1.0, 0.0), make_scored_group("b", 1.0, 1.0)]
    (alone,), (pack,) = (pack_rows(rows(groups), DAPO, 100) for groups in (both[:1], both))
    assert alone.loss.weights_L.tolist() == pytest.approx([1 / 4] * 4)
    assert pack.loss.weights_L.tolist() == pytest.approx([1 / 8] * 8)
    assert sorted(map(abs, pack.loss.advantages_L.tolist()))[:4] == [0.0] * 4


def test_first_fit_leaves_few_packs() -> None:
    step_rows = rows([make_scored_group(str(i), 1.0, 0.0) for i in range(30)])
    packs = pack_rows(step_rows, DAPO, 52)
    assert [len(pack.bounds_S) - 1 for pack in packs] == [10] * 6, "60 rows of 5 tokens"


@pytest.mark.parametrize(
    ("loss", "weights"),
    [
        ("dapo", [1 / 6, 1 / 6]),
        ("cispo", [1 / 6, 1 / 6]),
        ("grpo", [1 / 4, 1 / 8]),
        ("gspo", [1 / 4, 1 / 8]),
        ("dr_grpo", [1 / 128, 1 / 128]),
    ],
)
def test_the_weights_of_two_and_four_tokens(loss: str, weights: list[float]) -> None:
    objective = Objective.of(GRPOConfig.model_validate({"steps": 1, "loss": loss}))
    assert objective.token_weights([2, 4]) == pytest.approx(weights)


def test_only_tokens_of_the_trainers_own_version_are_fresh() -> None:
    (one, other) = rows([make_scored_group("a", 1.0, 0.0)])
    old = PolicyVersion(version=0, digest="d0")
    spans = (RolloutSpan(policy=old, num_tokens=1), RolloutSpan(policy=POLICY, num_tokens=1))
    mixed = replace(one, rollout=one.rollout.model_copy(update={"spans": spans}))

    def fresh(policy: PolicyVersion | None) -> list[bool]:
        (pack,) = pack_rows([mixed, other], DAPO, 100, policy)
        assert pack.fresh_L.dtype is torch.bool
        found: list[bool] = pack.fresh_L.tolist()
        return found

    assert fresh(POLICY) == [False, True, True, True]
    assert fresh(old) == [True, False, False, False]
    assert fresh(None) == [False] * 4


def with_versions(row: AnswerRow, *versions: int) -> AnswerRow:
    """The answer's two tokens as sampled by these versions."""
    spans = tuple(
        RolloutSpan(policy=PolicyVersion(version=v, digest=f"d{v}"), num_tokens=1) for v in versions
    )
    return replace(row, rollout=row.rollout.model_copy(update={"spans": spans}))


@pytest.mark.parametrize(
    ("loss", "weights"),
    [("dapo", [1 / 3] * 3), ("grpo", [1 / 2, 1 / 4, 1 / 4]), ("dr_grpo", [1 / 128] * 3)],
)
def test_tokens_beyond_max_staleness_are_read_and_not_learnt(
    loss: str, weights: list[float]
) -> None:
    """A row of old tokens alone counts as no sequence: its share would weaken the others."""
    first, second, third = rows([make_scored_group("a", 1.0, 0.0, 0.5)], Normalisation.NONE)
    step_rows = [
        with_versions(first, 5, 7),
        with_versions(second, 7, 9),
        with_versions(third, 1, 6),
    ]
    config = GRPOConfig.model_validate({"steps": 1, "loss": loss, "max_staleness": 2})
    now = PolicyVersion(version=9, digest="d9")
    (pack,) = pack_rows(step_rows, Objective.of(config), 100, now)
    assert pack.token_ids_T.tolist() == [1, 2, 3, 5, 6] * 2
    assert pack.places_L.tolist() == [4, 8, 9]
    assert pack.loss.weights_L.tolist() == pytest.approx(weights)
    assert pack.loss.old_logprobs_L.tolist() == [-0.25, -0.5, -0.25]
    assert pack.fresh_L.tolist() == [False, False, True]
    assert pack_rows([step_rows[2]], Objective.of(config), 100, now) == []


def test_a_million_tokens_of_many_turns_are_packed_in_seconds() -> None:
    """Python's part is by spans, not by tokens times turns."""
    (row, _) = rows([make_scored_group("a", 1.0, 0.0)])
    observed = (
        RolloutSpan(policy=None, num_tokens=100),
        RolloutSpan(policy=POLICY, num_tokens=700),
    )
    changes = {"token_ids": (7,) * 16_000, "logprobs": (-0.5,) * 16_000, "spans": observed * 20}
    long = replace(row, rollout=row.rollout.model_copy(update=changes))
    began = time.process_time()
    packs = pack_rows([long] * 64, DAPO, 32_768, POLICY)
    assert time.process_time() - began < 5
    assert sum(len(pack.places_L) for pack in packs) == 64 * 14_000


def test_every_rank_has_as_many_packs_and_each_token_is_learnt_once() -> None:
    packs = pack_rows(two_rows(), DAPO, 6)
    assert len(packs) == 2
    found = shares(packs, 3)
    assert [len(one) for one in found] == [1, 1, 1]
    learnt = [len(pack.places_L) for one in found for pack in one]
    assert sorted(learnt) == sorted([0, *(len(pack.places_L) for pack in packs)])


def test_a_step_without_a_token_to_learn_has_no_packs() -> None:
    stale = POLICY.model_copy(update={"version": POLICY.version + 50})
    packs = pack_rows(two_rows(), DAPO, 100, stale)
    assert packs == []
    assert shares(packs, 2) == [[], []]
