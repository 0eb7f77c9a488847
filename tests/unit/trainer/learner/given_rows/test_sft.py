"""SFT on tiny policies: its gradient, its measurements, its end and its resumption."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import MixtralConfig, PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.types import Role, Task
from assay_trainer.config import SFTConfig
from assay_trainer.data.dataset import Demonstration
from assay_trainer.data.tokenization import answered_token_ids
from assay_trainer.events import SFTStep
from assay_trainer.learner import checkpoint
from assay_trainer.learner.given_rows.callbacks import Diverged, StageAttempt
from assay_trainer.learner.given_rows.sft import train_sft
from assay_trainer.learner.network.model import create_policy, load_policy
from assay_trainer.stop import Stop, Stopped
from tests.support.architectures import publish_random
from tests.support.policies import TEXTS, TINY

#: Answers of 1 to 7 words, so that no two micro-batches have as many tokens.
ROWS = [
    Demonstration(
        Task(id=f"t{n}", role=Role.TRAIN, prompt=f"Write solve(x). Return x plus {n}."),
        "return " * (1 + 2 * n % 7) + str(n),
    )
    for n in range(14)
]


def train(
    folder: Path, rows: list[Demonstration] = ROWS, stop_after: int | None = None, **options: Any
) -> tuple[PreTrainedModel, list[SFTStep]]:
    """Train a tiny policy; a stop is asked for once `stop_after` steps are done."""
    resume_from = options.pop("resume_from", None)
    validation = options.pop("validation", ())
    model, tokenizer = create_policy(TINY, TEXTS, 0)
    steps: list[SFTStep] = []
    stop = Stop()

    def on_step(step: SFTStep) -> None:
        steps.append(step)
        if step.step == stop_after:
            stop.ask()

    train_sft(
        model,
        tokenizer,
        rows,
        SFTConfig.model_validate({"warmup_steps": 0, "learning_rate": 1e-3} | options),
        StageAttempt(1, folder, stop, resume_from=resume_from),
        on_step=on_step,
        validation=validation,
    )
    return model, steps


def two_updates(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> list[SFTStep]:
    """Train a given model on the rows, and return its two steps."""
    steps: list[SFTStep] = []
    config = SFTConfig(steps=2, batch_size=4)
    attempt = StageAttempt(1, folder, Stop())
    train_sft(model, tokenizer, ROWS, config, attempt, on_step=steps.append)
    return steps


def assert_equal_weights(one: PreTrainedModel, other: PreTrainedModel, tolerance: float) -> None:
    for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=tolerance, rtol=0, msg=name)


def assert_same_updates(one: PreTrainedModel, other: PreTrainedModel) -> None:
    """Adam divides by the gradient's size: where it is nearly 0, rounding alone moves a weight."""
    for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert ((a - b).abs() > 2e-5).float().mean() < 2e-3, name


def mean_loss(model: PreTrainedModel, rows: list[Demonstration]) -> float:
    """Return the mean loss of the rows' answer tokens, one row at a time, in nats."""
    tokenizer = create_policy(TINY, TEXTS, 0)[1]
    total, number = 0.0, 0
    for one in rows:
        ids, is_learnt = answered_token_ids(one.task, one.answer, tokenizer)
        labels = torch.tensor(
            [i if learnt else -100 for i, learnt in zip(ids, is_learnt, strict=True)]
        )
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0]
        total += float(cross_entropy(logits[:-1], labels[1:], reduction="sum"))
        number += int((labels[1:] != -100).sum())
    return total / number


@pytest.mark.parametrize("micro_batch_size", [1, 2, 4])
def test_micro_batches_of_unequal_lengths_are_one_batch(
    tmp_path: Path, micro_batch_size: int
) -> None:
    """The epoch's last update has 6 of 8 rows, and its last micro-batch of 4 has 2."""
    options: dict[str, Any] = {"epochs": 1, "batch_size": 8}
    whole, steps = train(tmp_path / "whole", **options)
    parts, partly = train(tmp_path / "parts", micro_batch_size=micro_batch_size, **options)
    assert [step.step for step in steps] == [1, 2]
    for one, other in zip(steps, partly, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-5)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-4)
    assert_same_updates(whole, parts)


def test_the_configuration_is_as_before_even_of_a_mixture_of_experts(tmp_path: Path) -> None:
    """An engine refuses versions with another configuration, or fails on the router's logits."""
    folder = publish_random(tmp_path / "model", MixtralConfig, num_local_experts=4)
    model, tokenizer = load_policy(folder)
    before = model.config.to_json_string(), model.generation_config.to_json_string()
    two_updates(model, tokenizer, tmp_path / "checkpoints")
    assert (model.config.to_json_string(), model.generation_config.to_json_string()) == before


def test_the_first_loss_is_that_of_the_rows(tmp_path: Path) -> None:
    first = create_policy(TINY, TEXTS, 0)[0]
    _, (step,) = train(tmp_path, steps=1, batch_size=14, micro_batch_size=7)
    assert step.loss == pytest.approx(mean_loss(first, ROWS), abs=1e-5)
    assert step.learning_rate == 1e-3
    assert step.grad_norm > 0
    assert step.epoch == 1
    assert (step.memory_bytes is None) == (not torch.cuda.is_available())


def test_the_validation_loss_is_measured_and_its_rows_are_not_learnt(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "epochs": 3,
        "batch_size": 5,
        "micro_batch_size": 5,
        "validation_every": 4,
    }
    alone, _ = train(tmp_path / "alone", ROWS[:10], **options)
    model, steps = train(tmp_path / "both", ROWS[:10], validation=ROWS[10:], **options)
    assert [step.step for step in steps if step.validation_loss is not None] == [4, 6]
    last = steps[-1].validation_loss
    assert last == pytest.approx(mean_loss(model, ROWS[10:]), abs=1e-5)
    assert last != pytest.approx(mean_loss(model, ROWS[:10]), abs=1e-2)
    assert_equal_weights(alone, model, 0)


def test_a_stop_in_the_middle_of_an_epoch_resumes_to_the_same_weights(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "batch_size": 4, "micro_batch_size": 2}
    whole, steps = train(tmp_path / "whole", **options)
    with pytest.raises(Stopped):
        train(tmp_path / "parts", stop_after=1, **options)
    found = checkpoint.newest(tmp_path / "parts")
    assert found is not None
    assert checkpoint.step_of(found[0]) == 2
    resumed, rest = train(tmp_path / "parts", resume_from=found[0], **options)
    assert [step.step for step in rest] == [3, 4, 5, 6, 7, 8]
    assert [step.loss for step in rest] == pytest.approx([step.loss for step in steps[2:]])
    assert [s.learning_rate for s in rest] == [s.learning_rate for s in steps[2:]]
    assert_equal_weights(whole, resumed, 1e-7)


@pytest.mark.parametrize("size", [{"steps": 3}, {"epochs": 1}])
def test_a_stage_whose_last_checkpoint_is_whole_does_no_further_step(
    tmp_path: Path, size: dict[str, int]
) -> None:
    options: dict[str, Any] = {"batch_size": 4, "micro_batch_size": 2, **size}
    whole, steps = train(tmp_path, **options)
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert checkpoint.step_of(found[0]) == steps[-1].step
    resumed, rest = train(tmp_path, resume_from=found[0], **options)
    assert rest == []
    assert_equal_weights(whole, resumed, 0)


def test_a_loss_that_is_not_finite_ends_the_stage(tmp_path: Path) -> None:
    model, tokenizer = create_policy(TINY, TEXTS, 0)
    with torch.no_grad():
        model.get_parameter("model.norm.weight").fill_(math.nan)
    with pytest.raises(Diverged, match="loss is nan at step 1"):
        two_updates(model, tokenizer, tmp_path)
    assert checkpoint.newest(tmp_path) is None


def test_a_padding_token_beyond_the_embedding_is_not_used(tmp_path: Path) -> None:
    model, tokenizer = create_policy(TINY, TEXTS, 0)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    assert tokenizer.pad_token_id >= model.get_input_embeddings().num_embeddings
    assert len(two_updates(model, tokenizer, tmp_path)) == 2
    assert tokenizer.pad_token == "[PAD]"


def test_without_padding_and_end_the_first_token_fills_rows(tmp_path: Path) -> None:
    model, tokenizer = create_policy(TINY, TEXTS, 0)
    tokenizer.pad_token = tokenizer.eos_token = None
    tokenizer.name_or_path = str(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 1}))
    assert len(two_updates(model, tokenizer, tmp_path / "run")) == 2
