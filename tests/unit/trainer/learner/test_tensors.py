from dataclasses import replace

import torch

from assay_shared.types import Normalisation, PolicyVersion, RolloutSpan
from assay_trainer.learner.tensors import collate, rows
from tests.support.fakes import POLICY, make_scored_group


def test_only_scored_samples_become_rows() -> None:
    groups = [make_scored_group("a", 1.0, None, 0.0), make_scored_group("b", None, 0.5, 1.0)]
    found = rows(groups, Normalisation.NONE)
    assert [row.advantage for row in found] == [0.5, -0.5, -0.25, 0.25]


def test_a_batch_is_padded_left_and_right() -> None:
    first, second = rows([make_scored_group("a", 1.0, 0.0)], Normalisation.NONE)
    longer = second.__class__(
        prompt_token_ids=(9,),
        rollout=second.rollout.model_copy(
            update={
                "token_ids": (7, 8, 9),
                "logprobs": (-1.0, -2.0, -3.0),
                "spans": (RolloutSpan(policy=POLICY, num_tokens=3),),
            }
        ),
        advantage=second.advantage,
    )
    batch = collate([first, longer], pad_id=0)
    assert batch.prompt_ids_BP.tolist() == [[1, 2, 3], [0, 0, 9]]
    assert batch.prompt_mask_BP.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert batch.completion_ids_BC.tolist() == [[5, 6, 0], [7, 8, 9]]
    assert batch.completion_mask_BC.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert torch.equal(batch.logprobs_BC, torch.tensor([[-0.5, -0.25, 0.0], [-1.0, -2.0, -3.0]]))
    assert batch.advantages_B.tolist() == [0.5, -0.5]


def test_rows_that_fill_a_micro_batch_up_carry_nothing() -> None:
    batch = collate(rows([make_scored_group("a", 1.0, 0.0, 0.5)]), 0, multiple_of=4)
    assert batch.completion_mask_BC.shape == (4, 2)
    assert batch.completion_mask_BC[3].sum() == 0
    assert batch.advantages_B[3] == 0


def test_what_an_environment_answered_is_read_and_not_learnt() -> None:
    (one, other) = rows([make_scored_group("a", 1.0, 0.0)])
    spans = (
        RolloutSpan(policy=POLICY, num_tokens=2),
        RolloutSpan(policy=None, num_tokens=2),
        RolloutSpan(policy=POLICY, num_tokens=1),
    )
    changes = {"token_ids": (5, 6, 7, 8, 9), "logprobs": (-1.0,) * 5, "spans": spans}
    episode = replace(one, rollout=one.rollout.model_copy(update=changes))
    batch = collate([episode, other], 0, multiple_of=3)
    assert batch.completion_mask_BC.tolist() == [[1] * 5, [1, 1, 0, 0, 0], [0] * 5]
    assert batch.loss_mask_BC.tolist() == [[1, 1, 0, 0, 1], [1, 1, 0, 0, 0], [0] * 5]


def test_only_tokens_of_the_trainers_own_version_are_fresh() -> None:
    (one, other) = rows([make_scored_group("a", 1.0, 0.0)])
    old = PolicyVersion(version=0, digest="d0")
    spans = (RolloutSpan(policy=old, num_tokens=1), RolloutSpan(policy=POLICY, num_tokens=1))
    mixed = replace(one, rollout=one.rollout.model_copy(update={"spans": spans}))
    assert collate([mixed, other], 0, policy=POLICY).fresh_mask_BC.tolist() == [[0, 1], [1, 1]]
    assert collate([mixed, other], 0, policy=old).fresh_mask_BC.tolist() == [[1, 0], [0, 0]]
    assert collate([mixed, other], 0).fresh_mask_BC.sum() == 0
