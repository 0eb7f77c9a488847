"""Tasks as token ids: what is learnt, and where a taught answer ends."""

import json
from pathlib import Path

import pytest
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.errors import ConfigError, DatasetError
from assay_shared.types import Message, PromptFormat
from assay_trainer.data.tokenization import answered_token_ids, prompt_token_ids
from assay_trainer.learner.network.model import create_policy, load_policy, train_tokenizer
from assay_trainer.weights.folder import publish_policy
from tests.support.fakes import make_task
from tests.support.policies import TEXTS, TINY


@pytest.mark.parametrize(
    ("with_history", "learnt"), [(False, "4<|end|>"), (True, "5<|end|>4<|end|>")]
)
def test_of_a_conversation_the_last_reply_is_learnt_or_all_of_them(
    with_history: bool, learnt: str
) -> None:
    said = (Message(role="user", content="2 + 2?"), Message(role="assistant", content="5"))
    task = make_task("t", prompt="Really?", history=said)
    tokenizer = train_tokenizer(TEXTS, 320)
    ids, is_learnt = answered_token_ids(task, "4", tokenizer, with_history=with_history)
    assert ids == [*prompt_token_ids(task, tokenizer), *tokenizer.encode("4<|end|>")]
    marked = [token_id for token_id, one in zip(ids, is_learnt, strict=True) if one]
    assert tokenizer.decode(marked) == learnt


def test_a_template_that_changes_replies_is_named_where_they_are_to_be_learnt() -> None:
    said = (Message(role="user", content="2 + 2?"), Message(role="assistant", content="5"))
    task = make_task("t", prompt="Really?", history=said)
    tokenizer = train_tokenizer(TEXTS, 320)
    tokenizer.chat_template = str(tokenizer.chat_template).replace(
        "message.content }}", "message.content | replace('5', '') }}"
    )
    with pytest.raises(DatasetError, match="does not show a reply as it was given"):
        answered_token_ids(task, "4", tokenizer, with_history=True)


def said(*roles: str) -> tuple[Message, ...]:
    return tuple(
        Message.model_validate({"role": role, "content": str(number)})
        for number, role in enumerate(roles, start=3)
    )


@pytest.mark.parametrize(
    ("roles", "learnt"),
    [
        (("assistant", "user", "assistant"), "5<|end|>9<|end|>"),
        (("user", "assistant", "assistant"), "4<|end|>5<|end|>9<|end|>"),
        (("system", "assistant", "user"), "9<|end|>"),
    ],
)
def test_a_conversation_need_not_take_turns(roles: tuple[str, ...], learnt: str) -> None:
    task = make_task("t", prompt="Really?", history=said(*roles))
    tokenizer = train_tokenizer(TEXTS, 320)
    ids, is_learnt = answered_token_ids(task, "9", tokenizer, with_history=True)
    assert ids == [*prompt_token_ids(task, tokenizer), *tokenizer.encode("9<|end|>")]
    marked = [token_id for token_id, one in zip(ids, is_learnt, strict=True) if one]
    assert tokenizer.decode(marked) == learnt


def with_turn_end(folder: Path, *ends: str) -> PreTrainedTokenizerBase:
    """Return a tokenizer whose template ends turns with `<|user|>`; answers end at `ends`."""
    model, tokenizer = create_policy(TINY, TEXTS, seed=0)
    tokenizer.chat_template = str(tokenizer.chat_template).replace("<|end|>", " <|user|>\n")
    publish_policy(model, tokenizer, folder)
    config = {"eos_token_id": [tokenizer.convert_tokens_to_ids(one) for one in ends]}
    (folder / "generation_config.json").write_text(json.dumps(config))
    return load_policy(folder)[1]


@pytest.mark.parametrize(
    ("ends", "prompt_format", "end"),
    [
        (("<|end|>", "<|user|>"), PromptFormat.CHAT, "<|user|>"),
        (("<|end|>",), PromptFormat.CHAT, "<|end|>"),
        (("<|end|>", "<|user|>"), PromptFormat.RAW, "<|end|>"),
    ],
)
def test_a_taught_answer_ends_as_the_template_ends_it_where_engines_stop_there(
    tmp_path: Path, ends: tuple[str, ...], prompt_format: PromptFormat, end: str
) -> None:
    tokenizer = with_turn_end(tmp_path / "policy", *ends)
    ids, _ = answered_token_ids(make_task(prompt_format=prompt_format), "4", tokenizer)
    assert tokenizer.convert_ids_to_tokens(ids[-1]) == end


def test_replies_of_a_history_are_learnt_with_the_end_of_their_template(tmp_path: Path) -> None:
    tokenizer = with_turn_end(tmp_path / "policy", "<|end|>", "<|user|>")
    tokenizer.chat_template = str(tokenizer.chat_template).replace(" <|user|>\n", "<|user|>")
    task = make_task("t", prompt="Really?", history=said("user", "assistant"))
    ids, is_learnt = answered_token_ids(task, "9", tokenizer, with_history=True)
    marked = [token_id for token_id, one in zip(ids, is_learnt, strict=True) if one]
    assert tokenizer.convert_ids_to_tokens(marked) == ["4", "<|user|>", "9", "<|user|>"]


def test_without_an_end_of_its_tokenizer_the_model_names_one(tmp_path: Path) -> None:
    tokenizer = with_turn_end(tmp_path / "policy", "<|end|>")
    tokenizer.eos_token = None
    for prompt_format in PromptFormat:
        ids, _ = answered_token_ids(make_task(prompt_format=prompt_format), "4", tokenizer)
        assert tokenizer.decode(ids[-1]) == "<|end|>"


def test_a_policy_without_any_end_teaches_no_answer() -> None:
    tokenizer = train_tokenizer(TEXTS, 320)
    tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="no token that ends an answer"):
        answered_token_ids(make_task(), "4", tokenizer)
