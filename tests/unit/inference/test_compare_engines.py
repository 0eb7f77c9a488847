"""The template's end token for replies, compared with the end of an answer."""

import json
from pathlib import Path

import pytest

from assay_inference.compare_engines import declared_ends, disagreements
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_trainer.learner.network.model import load_policy
from tests.support.policies import make_policy_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_policy_folder(tmp_path / "policy")
    return tmp_path / "policy"


def found(folder: Path, *ends: int, template: str | None = None) -> list[str]:
    _, tokenizer = load_policy(folder)
    if template is not None:
        tokenizer.chat_template = template
    vocabulary = PolicyTokenizer(tokenizer, 320, frozenset(ends), 128)
    return disagreements(vocabulary, declared_ends(folder, vocabulary))


def test_a_checkpoint_that_agrees_with_itself_says_nothing(folder: Path) -> None:
    assert found(folder, 1) == []


def test_each_place_that_does_not_name_the_templates_end_is_told(folder: Path) -> None:
    generation = folder / "generation_config.json"
    generation.write_text(json.dumps(json.loads(generation.read_text()) | {"eos_token_id": [0, 7]}))
    said = "the template ends a reply with '<|end|>' (1), but "
    assert found(folder, 0, 1, 7) == [said + "generation_config.json names [0, 7]"]
    assert said + "all together names [0]" in found(folder, 0)


def test_a_template_that_ends_no_reply_is_told(folder: Path) -> None:
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    assert "but all together names [1]" in found(folder, 1, template=template)[-1]
    no_more = "{% for message in messages[:2] %}{{ message.content }}{% endfor %}"
    assert found(folder, 1, template=no_more) == ["the chat template puts nothing after a reply"]
