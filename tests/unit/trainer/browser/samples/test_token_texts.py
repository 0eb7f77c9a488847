"""Tokens as texts: characters of several tokens, tokens of others, missing tokenizers."""

import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models

from assay_shared.types import FinishReason, PolicyVersion, Rollout, RolloutSpan
from assay_trainer.browser.samples.token_texts import token_pieces

POLICY = PolicyVersion(version=3, digest="d")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a byte-level tokenizer: é has two tokens, and id 5 is an unfinished byte."""
    words = {"a": 0, "Ã": 1, "©": 2, "Ġb": 3, "<end>": 4, "ð": 5}
    tokenizer = Tokenizer(models.BPE(words, []))
    tokenizer.decoder = decoders.ByteLevel()
    (tmp_path / "policy" / "v000002").mkdir(parents=True)
    tokenizer.save(str(tmp_path / "policy" / "v000002" / "tokenizer.json"))
    return tmp_path


def test_a_tokenizer_that_is_not_a_regular_file_is_not_read(tmp_path: Path) -> None:
    for version, target in (("v000001", "/dev/zero"), ("v000002", "/nowhere")):
        (tmp_path / "policy" / version).mkdir(parents=True)
        (tmp_path / "policy" / version / "tokenizer.json").symlink_to(target)
    (tmp_path / "models" / "m").mkdir(parents=True)
    os.mkfifo(tmp_path / "models" / "m" / "tokenizer.json")
    pieces, why_none = token_pieces(tmp_path, rollout(0), 10)
    assert pieces == []
    assert "no readable tokenizer.json" in why_none


def rollout(*ids: int, logprobs: tuple[float, ...] | None = None, read: int = 0) -> Rollout:
    spans = [RolloutSpan(policy=POLICY, num_tokens=len(ids) - read)]
    if read:
        spans.append(RolloutSpan(policy=None, num_tokens=read))
    return Rollout(
        token_ids=ids,
        logprobs=tuple(-0.25 * at for at in range(len(ids))) if logprobs is None else logprobs,
        text="",
        finish_reason=FinishReason.STOP,
        spans=tuple(spans),
    )


def test_tokens_of_one_character_are_shown_together(run: Path) -> None:
    found, why = token_pieces(run, rollout(0, 1, 2, 3, 4), 100)
    assert why == ""
    assert [one.text for one in found] == ["a", "é", " b", "<end>"]
    assert [one.logprob for one in found] == [0.0, -0.75, -0.75, -1.0]
    assert [one.level for one in found] == [0, 1, 2, 2]
    assert {one.version for one in found} == {3}


def test_a_broken_character_stands_alone_and_read_tokens_have_no_level(run: Path) -> None:
    found, _ = token_pieces(run, rollout(5, 0, 3, 0, read=2), 100)
    assert [one.text for one in found] == ["\N{REPLACEMENT CHARACTER}", "a", " b", "a"]
    assert [one.level for one in found] == [0, 1, None, None]
    assert [one.text for one in token_pieces(run, rollout(*[0] * 50), 7)[0]] == ["a"] * 7


def test_without_a_tokenizer_or_log_probabilities_the_reason_is_said(
    run: Path, tmp_path: Path
) -> None:
    assert token_pieces(run, rollout(0, 1, logprobs=()), 9) == (
        [],
        "log-probabilities are not stored",
    )
    assert "no readable tokenizer.json" in token_pieces(tmp_path / "models", rollout(0), 9)[1]
    assert token_pieces(run, rollout(2**40), 9)[1] == "a token's id is not of the tokenizer"
    (run / "policy" / "v000002" / "tokenizer.json").write_text("{")
    assert "cannot be read" in token_pieces(run, rollout(0), 9)[1]
