"""Texts become ids in other processes: the same ids as here, within limits on length and time."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from assay_inference.tokenizer import chat_template
from assay_inference.tokenizer.texts import MAX_CHARS_PER_TOKEN, Texts
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.errors import InvalidInput
from assay_shared.types import Message, PromptFormat
from assay_trainer.data.tokenization import prompt_token_ids
from tests.support.fakes import make_task
from tests.support.policies import make_llama_tokenizer, make_policy_folder

CONTEXT = 4096
TURNS: list[chat_template.Turn] = [{"role": "user", "content": "Return x plus 1. é " * 50}]
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    make_policy_folder(folder)
    return folder


@pytest.fixture
def vocabulary(folder: Path) -> PolicyTokenizer:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return PolicyTokenizer(tokenizer, len(tokenizer), frozenset({tokenizer.eos_token_id}), CONTEXT)


@pytest.fixture
async def texts() -> AsyncIterator[Texts]:
    texts = Texts()
    yield texts
    texts.close()


@pytest.mark.slow
async def test_ids_are_those_of_the_tokenizer_itself(
    texts: Texts, vocabulary: PolicyTokenizer
) -> None:
    short, long = "solve(x)", "Write solve(x). Return x plus 12. é\n" * 100
    assert await texts.encode(vocabulary, [short]) == [vocabulary.encode(short)]
    assert await texts.encode(vocabulary, [short, long]) == [
        vocabulary.encode(short),
        vocabulary.encode(long),
    ]
    ids = await texts.encode_turns(vocabulary, TURNS)
    text = chat_template.render_turns(vocabulary.tokenizer, TURNS)
    assert ids == vocabulary.encode(text)
    further = (Message(role="user", content="and now?"),)
    after = vocabulary.encode(chat_template.render_further(vocabulary.tokenizer, further))
    expected = chat_template.go_on(ids, after, vocabulary.end_ids)
    assert await texts.encode_further(vocabulary, ids, further) == expected


@pytest.mark.slow
async def test_what_can_never_fit_is_refused_before_it_is_tokenised(
    texts: Texts, vocabulary: PolicyTokenizer
) -> None:
    most = CONTEXT * MAX_CHARS_PER_TOKEN
    started = time.process_time()
    with pytest.raises(InvalidInput, match=f"characters do not fit .* up to {most} are") as raised:
        await texts.encode(vocabulary, ["word " * 10**6])
    assert raised.value.field == "prompt"
    with pytest.raises(InvalidInput, match="characters do not fit") as raised:
        await texts.encode_turns(vocabulary, [{"role": "user", "content": "x" * (most + 1)}])
    assert raised.value.field == "messages"
    assert time.process_time() - started < 0.5
    with pytest.raises(InvalidInput, match="a prompt of [0-9]+ tokens leaves no room"):
        await texts.encode(vocabulary, ["x1y2" * CONTEXT])


@pytest.mark.slow
async def test_a_template_that_never_ends_holds_nobody(
    texts: Texts, vocabulary: PolicyTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay_inference.tokenizer.texts._CPU_S", 1.0)
    vocabulary.tokenizer.chat_template = ENDLESS
    endless = asyncio.create_task(texts.encode_turns(vocabulary, TURNS))
    late = 0.0
    while not endless.done():
        started = time.monotonic()
        await asyncio.sleep(0.01)
        late = max(late, time.monotonic() - started)
    with pytest.raises(
        InvalidInput, match="the chat template does not come to an end: it takes more"
    ) as raised:
        await endless
    assert raised.value.field == "messages"
    assert late < 0.5
    assert await texts.encode(vocabulary, ["x " * 2000])


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{{ messages[99].content.x.y }}", "{{ 'a' * 10**10 }}", "{% if %}"]
)
@pytest.mark.slow
async def test_a_template_that_fails_is_told_as_such(
    texts: Texts, vocabulary: PolicyTokenizer, template: str
) -> None:
    vocabulary.tokenizer.chat_template = template
    with pytest.raises(InvalidInput, match="template") as raised:
        await texts.encode_turns(vocabulary, TURNS)
    assert raised.value.field == "messages"


@pytest.mark.slow
async def test_the_same_tokenizer_in_another_version_keeps_its_processes(
    texts: Texts, vocabulary: PolicyTokenizer, folder: Path, tmp_path: Path
) -> None:
    await texts.prepare(vocabulary)
    before = texts._workers
    make_policy_folder(tmp_path / "v1", seed=1)
    again = AutoTokenizer.from_pretrained(tmp_path / "v1")
    await texts.prepare(PolicyTokenizer(again, len(again), vocabulary.end_ids, CONTEXT))
    assert texts._workers is before
    again.chat_template = "{{ messages[0].content }}"
    other = PolicyTokenizer(again, len(again), vocabulary.end_ids, CONTEXT)
    assert await texts.encode_turns(other, TURNS) == vocabulary.encode(str(TURNS[0]["content"]))
    assert texts._workers is not before


async def test_a_raw_text_begins_with_the_models_first_token_and_a_template_as_it_is(
    texts: Texts,
) -> None:
    tokenizer = make_llama_tokenizer()
    vocabulary = PolicyTokenizer(tokenizer, len(tokenizer), frozenset(), CONTEXT)
    first = tokenizer.bos_token_id
    task = make_task(prompt="solve(x)", prompt_format=PromptFormat.RAW)
    (ids,) = await texts.encode(vocabulary, [task.prompt])
    assert ids == [first, *vocabulary.encode("solve(x)")]
    assert ids == prompt_token_ids(task, tokenizer), "the trainer's are the same"
    turns = await texts.encode_turns(vocabulary, TURNS)
    assert first not in turns
    chat = make_task(prompt=str(TURNS[0]["content"]))
    assert turns == prompt_token_ids(chat, tokenizer)
