"""The verdict on the channel: with inputs that have something in any place."""

from collections.abc import Callable

import pytest

from assay_trainer.learner.network.model import train_tokenizer
from assay_trainer.verification.asking import ProbeReply
from assay_trainer.verification.channel import ChannelVerdict, judge_channel
from assay_trainer.verification.model_tokens import ModelTokens
from assay_trainer.verification.probes import ChannelProbe, ProbeForm, probes_of
from assay_trainer.verification.sentinels import sentinels
from tests.support.policies import TEXTS, make_llama_tokenizer

Sent = Callable[[ChannelProbe, list[int]], list[int]]
MODELS = {
    "without BOS": ModelTokens(train_tokenizer(TEXTS, 320), frozenset()),
    "with BOS": ModelTokens(make_llama_tokenizer(), frozenset()),
}


def judged(tokens: ModelTokens, changed: Sent = lambda probe, ids: ids) -> ChannelVerdict:
    """Return the verdict on an engine that reads inputs well, but for the change."""
    probes = probes_of(sentinels(2), ["a prompt of mine"], tokens, 8)
    replies = {}
    for one in probes:
        ids = one.request.token_ids or tokens.own_ids(one.request.prompt or "")
        if one.request.messages is not None:
            ids = templated(tokens, one.prompt)
        replies[one.key] = ProbeReply(key=one.key, prompt_ids=tuple(changed(one, list(ids))))
    return judge_channel(probes, replies, tokens)


def templated(tokens: ModelTokens, prompt: str) -> list[int]:
    turns = [{"role": "user", "content": prompt}]
    text = tokens.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return list(tokens.tokenizer.encode(text, add_special_tokens=False))


def raw(change: Callable[[list[int]], list[int]]) -> Sent:
    return lambda probe, ids: change(ids) if probe.form is ProbeForm.RAW else ids


@pytest.mark.parametrize("name", MODELS)
def test_prompts_as_they_are_are_clean_and_every_control_is_found(name: str) -> None:
    found = judged(MODELS[name])
    assert found.verdict == "CLEAN"
    assert found.num_prompts == 19
    assert found.num_with_bos == (19 if name == "with BOS" else 0)
    numbers = {one.form: (one.num_sent, one.num_found) for one in found.controls}
    planted = dict.fromkeys([form for form in ProbeForm if form is not ProbeForm.RAW], (8, 8))
    assert numbers == planted | {ProbeForm.TEMPLATE: (19, 19)}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("at_end", [True, False])
def test_a_control_token_is_found_wherever_it_is(name: str, at_end: bool) -> None:
    tokens = MODELS[name]
    end = tokens.tokenizer.eos_token_id
    found = judged(tokens, raw(lambda ids: [*ids, end] if at_end else [ids[0], end, *ids[1:]]))
    assert (found.verdict, found.num_unclean) == ("NOT_CLEAN", 19)
    first = found.findings[0]
    assert first.control_tokens[0].position == (first.num_tokens - 1 if at_end else 1)
    assert first.control_tokens[0].token == "<|end|>"


def test_a_missing_and_a_doubled_bos_are_not_clean() -> None:
    tokens = MODELS["with BOS"]
    assert judged(tokens, raw(lambda ids: ids[1:])).verdict == "NOT_CLEAN"
    assert judged(tokens, raw(lambda ids: [ids[0], *ids])).verdict == "NOT_CLEAN"


def test_a_template_of_ordinary_words_is_not_clean() -> None:
    tokens = MODELS["without BOS"]
    words = tokens.own_ids("[INST] ")
    found = judged(tokens, raw(lambda ids: [*words, *ids]))
    assert found.verdict == "NOT_CLEAN"
    assert found.findings[0].num_control_tokens == 0
    assert found.findings[0].differs_at == 0


@pytest.mark.parametrize("form", [form for form in ProbeForm if form is not ProbeForm.RAW])
def test_a_control_that_is_missed_leaves_the_channel_unproven(form: ProbeForm) -> None:
    tokens = MODELS["with BOS"]

    def lost(probe: ChannelProbe, ids: list[int]) -> list[int]:
        is_lost = probe.form is form and probe.key.startswith("sentinel-1/")
        return tokens.own_ids(probe.prompt) if is_lost else ids

    assert judged(tokens, lost).verdict == "UNPROVEN"


def test_prompts_longer_than_the_context_are_counted_and_not_clean() -> None:
    tokens = MODELS["without BOS"]
    probes = probes_of(sentinels(1), [], tokens, 8)
    replies = {one.key: ProbeReply(key=one.key, refused="no room") for one in probes}
    found = judge_channel(probes, replies, tokens)
    assert (found.verdict, found.num_prompts, found.num_too_long) == ("UNPROVEN", 0, 13)
