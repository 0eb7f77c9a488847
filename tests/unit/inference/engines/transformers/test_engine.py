"""The transformers engine on a tiny model: batching must change nothing but the speed."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from assay_inference.engines.engine import ResolvedUpdate
from assay_inference.engines.transformers import engine as engine_transformers
from assay_inference.engines.transformers.engine import TransformersEngine
from assay_inference.serving.served_policy import ServedPolicy
from assay_inference.settings import InferenceSettings
from assay_inference.weights.uploads import Uploads
from assay_shared.errors import Conflict, InvalidInput, NotReady, WeightsRefused
from assay_shared.types import (
    Completion,
    DirectWeights,
    FinishReason,
    LogprobProbe,
    Message,
    PolicyVersion,
    SamplingParams,
    TensorSpec,
)
from assay_shared.weights import checkpoint
from tests.support.policies import make_policy_folders, update_of

PROMPTS = ["Return x plus 1.", "Write", "solve(x). Return x minus 12, then", "x", "def solve(x):"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_policy_folders(tmp_path_factory.mktemp("policies"), 3)


def make_engine(**settings: object) -> TransformersEngine:
    values = {"inference_device": "cpu", "inference_max_sequences": 16} | settings
    return TransformersEngine(InferenceSettings.model_validate(values))


def version(folder: Path, number: int = 1) -> PolicyVersion:
    return PolicyVersion(version=number, digest=checkpoint.digest(folder))


@pytest.fixture
async def engine(folders: list[Path]) -> AsyncIterator[TransformersEngine]:
    engine = make_engine()
    await engine.load(update_of(folders[0], version(folders[0])))
    yield engine
    await engine.close()


async def sample(engine: TransformersEngine, prompt: str, **sampling: object) -> list[Completion]:
    values = {"max_tokens": 24, "seed": 7} | sampling
    return await engine.generate(
        engine.vocabulary.encode(prompt), SamplingParams.model_validate(values)
    )


async def test_greedy_equals_the_librarys_own_generation(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    model = AutoModelForCausalLM.from_pretrained(folders[0])
    tokenizer = AutoTokenizer.from_pretrained(folders[0])
    for prompt in PROMPTS:
        ids = torch.tensor([engine.vocabulary.encode(prompt)])
        expected = model.generate(  # type: ignore[misc]  # its mixin hides the signature
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=24,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id,
        )[0, ids.shape[1] :]
        (got,) = await sample(engine, prompt, temperature=0.0)
        assert list(got.token_ids) == expected.tolist()


async def test_logprobs_equal_those_of_one_pass_over_the_whole_sequence(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    model = AutoModelForCausalLM.from_pretrained(folders[0]).eval()
    work = (sample(engine, p, n=3, temperature=0.8, seed=i) for i, p in enumerate(PROMPTS))
    for prompt, completions in zip(PROMPTS, await asyncio.gather(*work), strict=True):
        for completion in completions:
            prompt_ids = engine.vocabulary.encode(prompt)
            ids = torch.tensor([[*prompt_ids, *completion.token_ids]])
            with torch.no_grad():
                logprobs = (model(ids).logits[0, :-1] / 0.8).log_softmax(-1)
            expected = logprobs.gather(1, ids[0, 1:, None])[len(prompt_ids) - 1 :, 0]
            assert torch.allclose(torch.tensor(completion.logprobs), expected, atol=1e-4)


async def test_a_seeded_sample_is_the_same_alone_and_in_any_company(
    engine: TransformersEngine,
) -> None:
    alone = [await sample(engine, p, n=2, seed=i) for i, p in enumerate(PROMPTS)]
    for _ in range(3):

        async def later(index: int, prompt: str) -> list[Completion]:
            await asyncio.sleep(0.004 * index)
            return await sample(engine, prompt, n=2, seed=index)

        company = await asyncio.gather(*(later(i, p) for i, p in enumerate(PROMPTS)))
        for one, other in zip(alone, company, strict=True):
            assert [c.token_ids for c in one] == [c.token_ids for c in other]
    assert alone[0][0].token_ids != alone[0][1].token_ids, "samples of a request differ"


async def test_without_a_seed_samples_differ(engine: TransformersEngine) -> None:
    first, second = await sample(engine, "x", seed=None), await sample(engine, "x", seed=None)
    assert first[0].token_ids != second[0].token_ids


async def test_completions_end_at_their_limit_or_their_end(engine: TransformersEngine) -> None:
    completions = await sample(engine, "x", n=16, max_tokens=9)
    for completion in completions:
        assert len(completion.token_ids) == len(completion.logprobs)
        if completion.finish_reason is FinishReason.LENGTH:
            assert len(completion.token_ids) == 9
        else:
            assert engine.vocabulary.decode([completion.token_ids[-1]]) == "", (
                "it ends with the end token"
            )


async def test_a_stop_string_ends_a_completion_before_it(engine: TransformersEngine) -> None:
    (whole,) = await sample(engine, "x", temperature=0.0, max_tokens=40)
    stop = whole.text[5:8]
    (cut,) = await sample(engine, "x", temperature=0.0, max_tokens=40, stop=(stop, "\0never"))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("stop", [(), ("e",), ("~~never~~",)])
async def test_streamed_text_adds_up_to_the_whole(
    engine: TransformersEngine, stop: tuple[str, ...]
) -> None:
    pieces: dict[int, str] = {0: "", 1: "", 2: ""}

    def on_text(index: int, text: str) -> None:
        pieces[index] += text

    sampling = SamplingParams(n=3, max_tokens=30, seed=3, stop=stop)
    completions = await engine.generate(engine.vocabulary.encode("Write"), sampling, on_text)
    await asyncio.sleep(0)
    assert [pieces[i] for i in range(3)] == [c.text for c in completions]


async def test_more_samples_than_fit_at_once_are_all_drawn(engine: TransformersEngine) -> None:
    work = [sample(engine, "x", n=12, seed=i) for i in range(5)]
    assert [len(completions) for completions in await asyncio.gather(*work)] == [12] * 5
    assert len(await sample(engine, "x", n=40)) == 40


async def test_what_does_not_fit_the_context_is_refused(engine: TransformersEngine) -> None:
    with pytest.raises(InvalidInput, match="leaves room for 12. in a context of 128, not for 200"):
        await sample(engine, "x", max_tokens=200)
    with pytest.raises(InvalidInput, match="token_ids: ids must be between 0 and"):
        await engine.generate([10_000], SamplingParams(max_tokens=1))


async def test_nothing_is_served_before_weights_and_after_the_end(folders: list[Path]) -> None:
    engine = make_engine()
    with pytest.raises(NotReady, match="no weights"):
        engine.vocabulary.encode("x")
    await engine.load(update_of(folders[0], version(folders[0])))
    await engine.close()
    with pytest.raises(NotReady, match="stopped"):
        await sample(engine, "x")


async def test_weights_in_a_trainers_memory_are_refused(engine: TransformersEngine) -> None:
    tensor = TensorSpec(name="a", shape=(1,), dtype="float32", fingerprint="0" * 16)
    source = DirectWeights(
        transport="gloo",
        host="127.0.0.1",
        port=1,
        token="t" * 16,
        announcement=0,
        bucket_bytes=1,
        tensors=(tensor,),
    )
    update = ResolvedUpdate(source=source, policy=PolicyVersion(version=2, digest="d"))
    with pytest.raises(InvalidInput, match="source.kind: .*only from a folder"):
        await engine.load(update)
    assert await sample(engine, "x")


async def test_an_engine_that_loads_is_closed_at_once_and_answers(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def open_model(*_: object) -> None:
        begun.set()
        goes_on.wait()

    monkeypatch.setattr(engine_transformers, "open_model", open_model)
    monkeypatch.setattr(engine_transformers, "_CLOSE_S", 0.1)
    engine = make_engine()
    load = asyncio.create_task(engine.load(update_of(folders[0], version(folders[0]))))
    await asyncio.to_thread(begun.wait)
    async with asyncio.timeout(5):
        await engine.close()
    goes_on.set()
    with pytest.raises((NotReady, WeightsRefused)):
        await load


async def test_the_chat_template_is_applied_once(engine: TransformersEngine) -> None:
    ids = engine.vocabulary.encode_chat((Message(role="user", content="x plus 1"),))
    shown = "<|user|>x plus 1<|end|><|assistant|>"
    assert ids == engine.vocabulary.encode(shown)


# Weights


async def test_every_completion_is_of_one_version_while_weights_change(
    folders: list[Path],
) -> None:
    engine = make_engine(inference_max_sequences=64)
    await engine.load(update_of(folders[0], version(folders[0])))
    alone: dict[int, tuple[int, ...]] = {}
    for number in range(3):
        await engine.load(update_of(folders[number], version(folders[number], number)))
        alone[number] = (await sample(engine, "Write", seed=5))[0].token_ids

    async def swap() -> None:
        for number in (3, 4, 5, 6, 7, 8):
            await asyncio.sleep(0.01)
            folder = folders[number % 3]
            await engine.load(update_of(folder, version(folder, number)))

    async def ask(delay_s: float) -> list[Completion]:
        await asyncio.sleep(delay_s)
        return await sample(engine, "Write", n=1, seed=5)

    swapping = asyncio.create_task(swap())
    answers = await asyncio.gather(*(ask(0.002 * i) for i in range(60)))
    await swapping
    seen = set()
    for (completion,) in answers:
        seen.add(completion.policy.version)
        assert completion.token_ids == alone[completion.policy.version % 3]
    assert len(seen) > 1, "the weights did change while requests were running"
    await engine.close()


CHANGES: dict[str, dict[str, object]] = {
    "more layers": {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3},
    "fewer layers": {"num_hidden_layers": 1, "layer_types": ["full_attention"]},
    "layers at odds": {"num_hidden_layers": 3},
    "wider": {"hidden_size": 64},
    "sliding": {
        "layer_types": ["sliding_attention"] * 2,
        "use_sliding_window": True,
        "sliding_window": 8,
    },
}


def broken(folder: Path, into: Path, how: str) -> Path:
    """A copy of a checkpoint with something wrong in it."""
    into.mkdir()
    for file in folder.iterdir():
        (into / file.name).write_bytes(file.read_bytes())
    weights, config = into / "model.safetensors", into / "config.json"
    if how == "truncated":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif how == "garbage":
        weights.write_bytes(b"garbage" * 100)
    else:
        config.write_text(json.dumps(json.loads(config.read_text()) | CHANGES[how]))
    return into


@pytest.mark.parametrize("how", ["truncated", "garbage", *CHANGES])
async def test_a_broken_checkpoint_is_refused_and_the_old_one_serves_on(
    engine: TransformersEngine, folders: list[Path], tmp_path: Path, how: str
) -> None:
    before = (await sample(engine, "x"))[0]
    folder = broken(folders[1], tmp_path / "broken", how)
    with pytest.raises(WeightsRefused):
        await engine.load(update_of(folder, PolicyVersion(version=2, digest="d")))
    after = (await sample(engine, "x"))[0]
    assert (after.token_ids, after.policy) == (before.token_ids, before.policy)


async def test_a_probe_tells_other_weights_from_the_announced_ones(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    model = AutoModelForCausalLM.from_pretrained(folders[1]).eval()
    ids = engine.vocabulary.encode("Write solve(x). Return x plus 12.")
    with torch.no_grad():
        logprobs = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    right = logprobs.gather(1, torch.tensor(ids)[1:, None])[:, 0].tolist()
    probe = LogprobProbe(token_ids=tuple(ids), logprobs=tuple(right), tolerance=1e-3)
    with pytest.raises(WeightsRefused, match="not the weights that were announced"):
        await engine.load(update_of(folders[2], version(folders[2], 2), probe))
    loaded = await engine.load(update_of(folders[1], version(folders[1], 2), probe))
    assert loaded.probe_difference is not None
    assert loaded.probe_difference < 1e-4


async def test_versions_never_go_backwards(
    engine: TransformersEngine, folders: list[Path], tmp_path: Path
) -> None:
    uploads = Uploads(tmp_path, chunk_bytes=4096, max_bytes=2**30, idle_s=60.0)
    policy = ServedPolicy(engine, uploads, [Path("/")])

    async def announce(folder: Path, number: int, digest: str | None = None) -> int:
        announced = PolicyVersion(version=number, digest=digest or checkpoint.digest(folder))
        status = await policy.update(update_of(folder, announced))
        assert status.policy is not None
        return status.policy.version

    assert await announce(folders[0], 3) == 3
    assert await announce(folders[0], 3) == 3, "the same announcement again changes nothing"
    for number, folder in ((3, folders[1]), (2, folders[1]), (0, folders[0])):
        with pytest.raises(Conflict, match="never go backwards"):
            await announce(folder, number)
    with pytest.raises(WeightsRefused, match="policy.digest: .* has digest .*, not wrong"):
        await announce(folders[1], 4, digest="wrong")
    with pytest.raises(WeightsRefused, match="there is no checkpoint folder"):
        await policy.update(update_of(Path("/nowhere"), PolicyVersion(version=4, digest="d")))
    assert await announce(folders[1], 4) == 4
