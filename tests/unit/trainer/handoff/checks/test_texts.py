"""The template's end token for replies, compared with the end of an answer; and further texts."""

from typing import Any

import pytest

from assay_trainer.handoff.checks.check import CheckVerdict, FolderUse
from assay_trainer.handoff.checks.texts import (
    end_tokens,
    generation_settings,
    special_tokens,
    stopping,
    template,
)
from assay_trainer.handoff.engines.answers import FolderAccount, ForeignAnswer

PASS, FAIL, SKIPPED = CheckVerdict
AGREEING = {"generation_config.json": (1,), "config.json": (1,), "tokenizer": (1,)}


def account(**values: Any) -> FolderAccount:
    usual = {
        "model_class": "M",
        "num_parameters": 1,
        "num_expected": 1,
        "dtype": "float32",
        "num_embeddings": 10,
        "num_tokens": 10,
        "largest_id": 9,
        "special_tokens": {"<|end|>": 1},
        "ends": AGREEING,
        "has_template": True,
        "rendered": ("a", "a<bot>"),
        "template_end": (1, "<|end|>"),
    }
    return FolderAccount.model_validate(usual | values)


def answer(*ids: int) -> ForeignAnswer:
    return ForeignAnswer(prompt_ids=(5,), token_ids=ids, logprobs=(0.0,) * len(ids), ended=True)


def test_a_checkpoint_that_agrees_with_itself_passes() -> None:
    found = end_tokens(account())
    assert found.verdict is PASS
    assert "beware" not in found.evidence


@pytest.mark.parametrize("place", ["config.json", "tokenizer"])
def test_a_place_that_does_not_name_the_templates_end_is_told(place: str) -> None:
    found = end_tokens(account(ends=AGREEING | {place: (7,)}))
    assert found.verdict is PASS
    assert found.evidence.endswith(f"beware: {place} does not name it")


@pytest.mark.parametrize(
    ("values", "evidence"),
    [
        ({"ends": AGREEING | {"generation_config.json": (7,)}}, "add 1 to generation_config"),
        ({"ends": {}}, "no file names one"),
        ({"ends": AGREEING | {"config.json": (1, 99)}}, "the tokenizer has no"),
        ({"ordinary_ends": {7: "."}}, "is cut off there: '.' (7)"),
        ({"template_end": None, "template_end_error": "it puts nothing"}, "it puts nothing"),
    ],
)
def test_answers_that_would_not_end_fail(values: dict[str, Any], evidence: str) -> None:
    found = end_tokens(account(**values))
    assert found.verdict is FAIL
    assert evidence in found.evidence
    assert FolderUse.VLLM in found.rules_out
    assert FolderUse.TRANSFORMERS not in found.rules_out


def test_without_a_template_named_ends_are_enough() -> None:
    assert end_tokens(account(has_template=False, template_end=None)).verdict is PASS


def test_a_template_that_renders_something_else_than_the_sources_fails() -> None:
    assert template(account(), account()).verdict is PASS
    assert template(account(), account(rendered=("a", "b"))).verdict is FAIL
    assert template(account(), account(has_template=False, rendered=None)).verdict is FAIL
    broken = account(rendered=None, template_error="TemplateError: no")
    assert "TemplateError: no" in template(account(), broken).evidence
    assert template(None, broken).verdict is FAIL
    assert template(None, account()).verdict is SKIPPED
    none = account(has_template=False, rendered=None)
    assert template(none, none).verdict is SKIPPED


def test_special_tokens_that_do_not_come_back_are_named() -> None:
    assert special_tokens(account()).verdict is PASS
    assert "'<|end|>'" in special_tokens(account(broken_specials=("<|end|>",))).evidence
    assert special_tokens(account(special_tokens={})).verdict is SKIPPED


def test_answers_end_by_a_token_that_transformers_stops_at() -> None:
    """An end that the tokenizer alone names does not stop plain transformers."""
    answers = (answer(4, 1), answer(4, 7), answer(4, 5))
    found = account(answers=answers, ends=AGREEING | {"tokenizer": (1, 7)})
    assert stopping(found, 0.3, is_asked=False).verdict is PASS
    failed = stopping(found, 0.5, is_asked=False)
    assert failed.verdict is FAIL
    assert "1 of 3 answers (33%) end by an end token" in failed.evidence


def test_an_answer_that_ends_by_an_ordinary_word_does_not_count() -> None:
    ends = AGREEING | {"generation_config.json": (1, 7)}
    answers = (answer(4, 1), answer(4, 7))
    found = account(answers=answers, ends=ends, ordinary_ends={7: "."})
    assert "1 of 2 answers" in stopping(found, 0.5, is_asked=False).evidence


def test_answers_of_a_model_without_a_template_need_not_end() -> None:
    found = account(has_template=False, answers=(answer(4),))
    assert stopping(found, 0.5, is_asked=False).verdict is SKIPPED
    assert stopping(found, 0.5, is_asked=True).verdict is FAIL


def test_settings_that_change_answers_are_named() -> None:
    assert "has none that changes" in generation_settings(account()).evidence
    settings = {"repetition_penalty": "1.3", "suppress_tokens": "[5, 6]"}
    found = account(greedy_settings=settings, answers=(answer(4), answer(5)), num_changed=1)
    told = generation_settings(found)
    assert told.verdict is PASS
    assert "beware: repetition_penalty 1.3, suppress_tokens [5, 6]" in told.evidence
    assert "1 of 2 greedy answers differ" in told.evidence
    sampled = generation_settings(account(sampling_settings={"temperature": "0.6"}))
    assert "temperature 0.6" in sampled.evidence


def test_settings_that_transformers_refuses_fail() -> None:
    found = account(greedy_settings={"num_beams": "-1"}, settings_error="ValueError: no")
    told = generation_settings(found)
    assert told.verdict is FAIL
    assert FolderUse.TRANSFORMERS in told.rules_out
