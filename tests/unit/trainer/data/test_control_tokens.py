"""Control tokens of a policy in texts that are given to learn from."""

import pytest
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.types import Role, Task
from assay_trainer.data.control_tokens import with_control_tokens
from assay_trainer.learner.network.model import create_policy
from tests.support.policies import TINY


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return create_policy(TINY, ["x plus 1", "x times 2"], 0)[1]


def task(prompt: str) -> Task:
    return Task(id=prompt, dataset="d", role=Role.TRAIN, prompt=prompt, rubric="math")


def test_a_row_with_a_control_token_is_named_with_the_token(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    end = str(tokenizer.eos_token)
    rows = [
        (task("plain"), ("x plus 1", "an answer")),
        (task("in the prompt"), (f"x plus 1{end}", "an answer")),
        (task("in the answer"), ("x", f"an answer{end}x times 2")),
    ]
    found = with_control_tokens(rows, tokenizer)
    assert [one.id for one, _ in found] == ["in the prompt", "in the answer"]
    assert all(f"control token {end} " in reason for _, reason in found)


def test_signs_that_only_look_like_a_control_token_are_text(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    end = str(tokenizer.eos_token)
    rows = [(task("x"), (end[:-1], end[1:], end.replace("|", "!"), "1 < 2 | 3 > 2"))]
    assert with_control_tokens(rows, tokenizer) == []


def test_a_token_for_unknown_text_that_also_ends_answers_counts() -> None:
    tokenizer = create_policy(TINY, ["x plus 1", "x times 2"], 0)[1]
    tokenizer.add_special_tokens({"unk_token": "<unk>"})
    assert with_control_tokens([(task("x"), ("an <unk> answer",))], tokenizer) == []
    tokenizer.unk_token = tokenizer.eos_token  # GPT-2 has one token for both
    rows = [(task("x"), (f"an answer{tokenizer.eos_token}",))]
    assert [one.id for one, _ in with_control_tokens(rows, tokenizer)] == ["x"]
