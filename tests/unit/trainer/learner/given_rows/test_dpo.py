"""DPO on tiny policies: its loss, what it learns, and its resumption."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import logsigmoid
from transformers import PreTrainedModel

from assay_shared.errors import DatasetError
from assay_shared.types import Role, Task
from assay_trainer.config import DPOConfig
from assay_trainer.data.preferences import Preference
from assay_trainer.events import DPOMeasured, DPOStep
from assay_trainer.learner import checkpoint
from assay_trainer.learner.given_rows.callbacks import StageAttempt
from assay_trainer.learner.given_rows.dpo import measured, pair_token_ids, train_dpo
from assay_trainer.learner.given_rows.training_rows import PairIds
from assay_trainer.learner.network.model import create_policy
from assay_trainer.stop import Stop, Stopped
from tests.support.policies import TEXTS, TINY
from tests.unit.trainer.learner.given_rows.test_sft import (
    assert_equal_weights,
    assert_same_updates,
)

DATA = {"kind": "jsonl", "path": "preferences.jsonl"}


def preferences(number: int) -> list[Preference]:
    """Answers of several lengths; the better one begins with `def`, the worse with `return`."""
    rng = random.Random(7)

    def answer(word: str) -> str:
        return word + " solve(x)" * rng.randint(1, 5) + f" {rng.randint(0, 9)}"

    return [
        Preference(
            Task(id=f"p{n}", role=Role.TRAIN, prompt=f"Return x plus {n}."),
            answer("def"),
            answer("return"),
        )
        for n in range(number)
    ]


def pairs_of(rows: list[Preference]) -> list[PairIds]:
    found = pair_token_ids(rows, *create_policy(TINY, TEXTS, 0), 128)
    return [one for one in found if one is not None]


def noisy_policy() -> PreTrainedModel:
    """Return a policy whose configuration asks for dropout."""
    model = create_policy(TINY, TEXTS, 0)[0]
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    return model


def train(
    folder: Path,
    pairs: list[PairIds],
    held_out: list[PairIds] | None = None,
    stop_after: int | None = None,
    resume_from: Path | None = None,
    *,
    start: PreTrainedModel | None = None,
    **options: Any,
) -> tuple[PreTrainedModel, list[DPOStep], list[DPOMeasured]]:
    model, tokenizer = create_policy(TINY, TEXTS, 0)
    model = start or model
    steps: list[DPOStep] = []
    found: list[DPOMeasured] = []
    stop = Stop()

    def on_step(step: DPOStep) -> None:
        steps.append(step)
        if step.step == stop_after:
            stop.ask()

    values = {"data": DATA, "warmup_steps": 0, "learning_rate": 1e-3} | options
    train_dpo(
        model,
        tokenizer,
        pairs,
        DPOConfig.model_validate(values),
        StageAttempt(1, folder, stop, resume_from=resume_from),
        on_step=on_step,
        on_measured=found.append,
        held_out=held_out or [],
    )
    return model, steps, found


def answer_logprob(model: PreTrainedModel, prompt: list[int], answer: list[int]) -> torch.Tensor:
    """Return the log-probability of an answer alone in its batch, in nats."""
    logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    logprob: torch.Tensor = logits.log_softmax(-1)[range(len(answer)), answer].sum()
    return logprob


@pytest.mark.parametrize("micro_batch_size", [1, 2, 4])
def test_micro_batches_of_unequal_lengths_are_one_batch(
    tmp_path: Path, micro_batch_size: int
) -> None:
    """The epoch's last update has 6 of 8 pairs, and its last micro-batch of 4 has 2."""
    pairs = pairs_of(preferences(14))
    options: dict[str, Any] = {"epochs": 1, "batch_size": 8}
    whole, steps, _ = train(tmp_path / "whole", pairs, **options)
    parts, partly, _ = train(
        tmp_path / "parts", pairs, micro_batch_size=micro_batch_size, **options
    )
    assert [step.step for step in steps] == [1, 2]
    for one, other in zip(steps, partly, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-4)
    assert_same_updates(whole, parts)


def test_the_gradient_is_that_of_the_papers_loss(tmp_path: Path) -> None:
    """At the start the margin is 0 and the loss log 2, whatever the policy."""
    pairs, beta = pairs_of(preferences(6)), 0.5
    _, (step,), _ = train(tmp_path, pairs, steps=1, batch_size=6, micro_batch_size=3, beta=beta)
    model = create_policy(TINY, TEXTS, 0)[0]
    loss = torch.zeros(())
    for prompt, chosen, rejected in pairs:
        gap = answer_logprob(model, prompt, chosen) - answer_logprob(model, prompt, rejected)
        loss = loss - logsigmoid(beta * (gap - gap.detach())) / len(pairs)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    assert step.loss == pytest.approx(float(loss.detach()), abs=1e-5)
    assert step.grad_norm == pytest.approx(float(norm), rel=1e-4)
    assert step.margin == pytest.approx(0, abs=1e-5)
    assert step.learning_rate == 1e-3


def test_the_policy_has_as_little_dropout_as_its_reference(tmp_path: Path) -> None:
    start = noisy_policy()
    _, (step,), _ = train(tmp_path, pairs_of(preferences(6)), start=start, steps=1, batch_size=6)
    assert step.loss == pytest.approx(math.log(2), abs=1e-5)
    assert start.config.attention_dropout == 0.5, "it is published"


def test_a_planted_preference_is_learnt(tmp_path: Path) -> None:
    pairs = pairs_of(preferences(48))
    model, steps, (before, after) = train(
        tmp_path, pairs[:32], pairs[32:], epochs=6, batch_size=8, micro_batch_size=4
    )
    assert (before.name, before.num_pairs, before.margin) == ("before", 16, 0)
    assert before.win_rate.value == 0.5
    assert after.name == "after"
    assert after.win_rate.value >= 0.9
    assert after.win_rate.low > 0.5
    assert after.margin > 0.5
    assert after.margin_interval is not None
    assert 0 < after.margin_interval.low < after.margin < after.margin_interval.high
    assert sum(after.margins) / 16 == pytest.approx(after.margin, abs=1e-5)
    assert "margins" not in after.model_dump(), "an event has no list as long as the data"
    assert steps[-1].margin > steps[0].margin + 0.5
    assert steps[-1].accuracy == 1
    assert steps[-1].loss < steps[0].loss
    first = create_policy(TINY, TEXTS, 0)[0]
    with torch.no_grad():
        gaps = [
            [answer_logprob(one, p, c) - answer_logprob(one, p, r) for p, c, r in pairs[32:]]
            for one in (first, model)
        ]
    margins = 0.1 * (torch.stack(gaps[1]) - torch.stack(gaps[0]))
    assert after.margin == pytest.approx(float(margins.mean()), abs=1e-4)
    for one, gap in zip((before, after), gaps, strict=True):
        share = float((torch.stack(gap) > 0).float().mean())
        assert one.logprob_win_rate.value == share


@pytest.mark.nightly
def test_a_stop_in_the_middle_of_an_epoch_resumes_to_the_same_weights(tmp_path: Path) -> None:
    pairs = pairs_of(preferences(20))
    options: dict[str, Any] = {"epochs": 2, "batch_size": 4, "micro_batch_size": 2}
    whole, steps, found = train(tmp_path / "whole", pairs[:14], pairs[14:], **options)
    with pytest.raises(Stopped):
        train(tmp_path / "parts", pairs[:14], pairs[14:], stop_after=1, **options)
    folder = checkpoint.newest(tmp_path / "parts")
    assert folder is not None
    resumed, rest, again = train(
        tmp_path / "parts", pairs[:14], pairs[14:], resume_from=folder[0], **options
    )
    assert [step.step for step in rest] == [3, 4, 5, 6, 7, 8]
    assert [step.loss for step in rest] == pytest.approx([step.loss for step in steps[2:]])
    assert [s.margin for s in rest] == pytest.approx([s.margin for s in steps[2:]], abs=1e-6)
    assert [one.name for one in again] == ["after"]
    assert again[0].margin == pytest.approx(found[1].margin, abs=1e-6)
    assert_equal_weights(whole, resumed, 1e-7)


def test_a_stage_whose_last_checkpoint_is_whole_does_no_further_step(tmp_path: Path) -> None:
    pairs = pairs_of(preferences(20))
    options: dict[str, Any] = {"steps": 2, "batch_size": 4, "micro_batch_size": 2}
    whole, _, told = train(tmp_path, pairs[:14], pairs[14:], **options)
    folder = checkpoint.newest(tmp_path)
    assert folder is not None
    resumed, rest, again = train(tmp_path, pairs[:14], pairs[14:], resume_from=folder[0], **options)
    assert rest == []
    assert [one.name for one in again] == ["after"]
    assert again[0].margin == pytest.approx(told[1].margin, abs=1e-6)
    assert_equal_weights(whole, resumed, 0)


def test_pairs_that_are_too_long_are_left_out() -> None:
    rows = preferences(3)
    long = Preference(rows[1].task, "def", "return " * 200)
    model, tokenizer = create_policy(TINY, TEXTS, 0)
    found = pair_token_ids([rows[0], long, rows[2]], model, tokenizer, 1024)
    assert [one is None for one in found] == [False, True, False], "the context is 128"
    with pytest.raises(DatasetError, match="all 1 pairs are longer than 128 tokens"):
        pair_token_ids([long], model, tokenizer, 1024)


def test_wins_have_wilsons_interval_and_ties_count_half() -> None:
    first = torch.zeros(4, 2)
    now = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    found = measured("after", now, first, 0.5)
    assert found.margin == 0.5 * (1 + 2 - 1 + 0) / 4
    assert found.win_rate.value == 2.5 / 4
    assert 0 < found.win_rate.low < 2.5 / 4 < found.win_rate.high < 1
