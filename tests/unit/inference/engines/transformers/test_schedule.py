"""The transformers engine within its cache: in parts, in chunks, and each request alone."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from assay_inference.engines.transformers import engine as engine_transformers
from assay_inference.engines.transformers import schedule
from assay_inference.engines.transformers.decoder import Decoder
from assay_inference.engines.transformers.engine import TransformersEngine
from assay_inference.engines.transformers.held_form import HeldForm
from assay_inference.engines.transformers.jobs import JobRow
from assay_inference.engines.transformers.memory import CacheCost, Room, is_out_of_memory
from assay_inference.engines.transformers.model import open_model as open_model_really
from assay_inference.engines.transformers.schedule import Schedule
from assay_inference.settings import InferenceSettings
from assay_shared.errors import EngineFault, InvalidInput, NotFinite
from assay_shared.types import Completion, PolicyVersion, SamplingParams, SyncMode
from assay_shared.weights import checkpoint
from tests.support.policies import make_policy_folders, update_of

PROMPTS = ["Return x plus 1.", "Write", "solve(x). Return x minus 12, then", "x", "def solve(x):"]
LONG = "Write solve(x). Return x plus 1.\ndef solve(x):\n    return x + 1\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_policy_folders(tmp_path_factory.mktemp("policies"), 2)


async def make_engine(folder: Path, **settings: object) -> TransformersEngine:
    values = {"inference_device": "cpu", "inference_cache_bytes": 2**30} | settings
    engine = TransformersEngine(InferenceSettings.model_validate(values))
    await load(engine, folder)
    return engine


async def load(engine: TransformersEngine, folder: Path, number: int = 1, **more: Any) -> None:
    policy = PolicyVersion(version=number, digest=checkpoint.digest(folder))
    await engine.load(update_of(folder, policy, **more))


@pytest.fixture
async def engine(folders: list[Path]) -> AsyncIterator[TransformersEngine]:
    engine = await make_engine(folders[0])
    yield engine
    await engine.close()


def cost_of(engine: TransformersEngine) -> CacheCost:
    assert engine._room is not None
    return engine._room.cost


async def sample(engine: TransformersEngine, prompt: str, **sampling: object) -> list[Completion]:
    values = {"max_tokens": 24, "seed": 7} | sampling
    return await engine.generate(
        engine.vocabulary.encode(prompt), SamplingParams.model_validate(values)
    )


def ids_of(completions: list[Completion]) -> list[tuple[int, ...]]:
    return [completion.token_ids for completion in completions]


@contextmanager
def watched(method: str, of: type, note: Callable[..., None]) -> Iterator[None]:
    """`note` gets the arguments of each call of the method, before it is made."""
    plain = getattr(of, method)

    def noting(*arguments: Any, **named: Any) -> Any:
        note(*arguments, **named)
        return plain(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of, method, noting)
        yield


# Room


async def test_samples_that_do_not_fit_at_once_are_drawn_in_parts_and_are_the_same(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    expected = await asyncio.gather(
        *(sample(engine, p, n=9, seed=i) for i, p in enumerate(PROMPTS))
    )
    room = cost_of(engine).of(4, 60)
    small = await make_engine(folders[0], inference_cache_bytes=room)
    most_bytes, most_rows = 0, 0

    def note(self: Schedule, *_: object) -> None:
        nonlocal most_bytes, most_rows
        layers: list[Any] = list(self.running._batch._cache.layers) if self.running._batch else []
        held = sum(int(layer.keys.nbytes + layer.values.nbytes) for layer in layers)
        assert held <= self.num_reserved
        most_bytes = max(most_bytes, self.num_reserved + self._known.num_bytes)
        most_rows = max(most_rows, len(self.running.rows))

    with watched("turn", Schedule, note):
        found = await asyncio.gather(
            *(sample(small, p, n=9, seed=i) for i, p in enumerate(PROMPTS))
        )
    await small.close()
    assert [ids_of(one) for one in found] == [ids_of(one) for one in expected]
    assert most_bytes <= room
    assert 2 <= most_rows <= 12


async def test_a_sample_that_never_fits_is_refused_with_what_would(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    room = cost_of(engine).of(1, 40)
    small = await make_engine(folders[0], inference_cache_bytes=room)
    prompt = small.vocabulary.encode("x")
    with pytest.raises(InvalidInput, match="sampling.max_tokens: a sample of") as refused:
        await small.generate(prompt, SamplingParams(max_tokens=100, n=2))
    left = 40 - len(prompt)
    needed = cost_of(small).of(1, len(prompt) + 100)
    assert f"needs {needed:,} bytes of cache, and {room:,} are available" in str(refused.value)
    assert f"up to {left} fit after this prompt, for any n" in str(refused.value)
    assert len(await small.generate(prompt, SamplingParams(max_tokens=left, n=5))) == 5
    with pytest.raises(InvalidInput, match=f"up to {left} fit"):
        await small.generate(prompt, SamplingParams(max_tokens=left + 1))
    with pytest.raises(InvalidInput, match="together may have 40 tokens"):
        await small.generate(prompt * 41, SamplingParams(max_tokens=1))
    await small.close()


async def test_a_request_in_parts_lets_those_that_came_later_start_in_between(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    small = await make_engine(folders[0], inference_cache_bytes=cost_of(engine).of(2, 60))
    ended: list[str] = []

    async def ask(name: str, n: int) -> None:
        await sample(small, "x", n=n)
        ended.append(name)

    await asyncio.gather(ask("large", 40), ask("small", 1))
    await small.close()
    assert ended == ["small", "large"]


async def test_a_request_waits_for_one_round_of_rows_behind_two_large_ones(
    folders: list[Path],
) -> None:
    small = await make_engine(folders[0], inference_max_sequences=8)

    async def ask(n: int, **more: object) -> int:
        """Return the engine's sampled tokens at the time of the answer."""
        await sample(small, "x", n=n, ignore_eos=True, **more)
        return small.num_tokens

    first, second, one = await asyncio.gather(ask(64), ask(64), ask(1, max_tokens=4))
    await small.close()
    assert one <= 8 * (24 + 4 + 2) < 2000 < min(first, second), "eight rows of 24, then its own"


def test_room_counts_the_longest_row_for_every_row() -> None:
    room = Room(CacheCost(per_token=10, per_row=100), max_bytes=1000, max_rows=8)
    assert room.num_fitting(0, 10) == 5
    assert room.num_fitting(4, 10) == 1
    assert room.num_fitting(4, 90) == 0
    assert room.num_fitting(0, 1) == 8


async def test_weights_that_take_over_in_mid_prompt_leave_no_sample_of_two_versions(
    folders: list[Path],
) -> None:
    one = await make_engine(folders[0], inference_cache_bytes=2**20)
    work = asyncio.create_task(sample(one, LONG, n=30, max_tokens=40))
    await asyncio.sleep(0.05)
    await load(one, folders[1], 2, mode=SyncMode.RESTART)
    restarted = await work
    fresh = await sample(one, LONG, n=30, max_tokens=40)
    await one.close()
    assert {completion.policy.version for completion in restarted} == {2}
    assert ids_of(restarted) == ids_of(fresh)


# Chunks


async def test_a_long_prompt_is_read_in_chunks_and_others_are_drawn_in_between(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "_CHUNK_TOKENS", 8)
    monkeypatch.setattr(schedule, "_LONE_CHUNK_TOKENS", 8)
    lengths: list[int] = []
    network = engine._served().network
    plain = network.forward

    def forward(*arguments: Any, **named: Any) -> Any:
        num_rows, num_read = named["input_ids"].shape
        lengths.append(num_read)
        assert num_read * num_rows <= 8 or num_read == 1
        return plain(*arguments, **named)

    monkeypatch.setattr(network, "forward", forward)
    other = asyncio.create_task(sample(engine, "x", n=2, max_tokens=60))
    await asyncio.sleep(0.02)
    (long,) = await sample(engine, LONG, temperature=0.0)
    await other
    first, last = lengths.index(8, 1), len(lengths) - lengths[::-1].index(8)
    assert 1 in lengths[first:last], "rows were drawn while the long prompt was read"
    monkeypatch.undo()
    (whole,) = await sample(engine, LONG, temperature=0.0)
    assert long.token_ids == whole.token_ids
    assert long.logprobs == pytest.approx(whole.logprobs, abs=1e-4)


# Faults


def failing(engine: TransformersEngine, is_fatal: Callable[[torch.Tensor], bool], text: str) -> Any:
    """Return the network's forward; it raises if `is_fatal` of its ids."""
    plain = engine._served().network.forward

    def forward(*arguments: Any, **named: Any) -> Any:
        if is_fatal(named["input_ids"]):
            raise RuntimeError(text)
        return plain(*arguments, **named)

    return forward


@pytest.mark.parametrize("text", ["kernel broke", "DefaultCPUAllocator: can't allocate memory"])
async def test_a_prompt_that_cannot_be_read_fails_alone(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    expected = [await sample(engine, p, n=2) for p in PROMPTS]
    poison = engine.vocabulary.size - 1
    forward = failing(engine, lambda ids: bool((ids == poison).any()), text)
    monkeypatch.setattr(engine._served().network, "forward", forward)
    work = [sample(engine, p, n=2) for p in PROMPTS[:3]]
    bad = engine.generate([5, poison, 7], SamplingParams(n=3, max_tokens=8))
    *found, fault = await asyncio.gather(
        *work, *(sample(engine, p, n=2) for p in PROMPTS[3:]), bad, return_exceptions=True
    )
    assert [ids_of(one) for one in found] == [ids_of(one) for one in expected]  # type: ignore[arg-type]
    assert isinstance(fault, EngineFault)
    assert fault.retryable


@pytest.mark.slow
async def test_a_step_that_fails_for_one_request_is_repeated_without_it(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [await sample(engine, p, n=2, max_tokens=60) for p in PROMPTS]
    mark = 3

    def is_fatal(ids: torch.Tensor) -> bool:
        """Steps, not readings, of a batch with rows of the bad request."""
        rows = engine._schedule.running.rows
        return ids.shape[1] == 1 and any(row.request.prompt == [mark] for row in rows)

    monkeypatch.setattr(
        engine._served().network, "forward", failing(engine, is_fatal, "no room in a step")
    )
    work = [asyncio.create_task(sample(engine, p, n=2, max_tokens=60)) for p in PROMPTS]
    await asyncio.sleep(0.05)
    with pytest.raises(EngineFault, match="failed at a step"):
        await engine.generate([mark], SamplingParams(n=3, max_tokens=60))
    found = await asyncio.gather(*work)
    for one, other in zip(found, expected, strict=True):
        assert ids_of(one) == ids_of(other)
        for left, right in zip(one, other, strict=True):
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)


async def test_an_engine_whose_every_step_fails_answers_each_request_and_goes_on(
    engine: TransformersEngine,
) -> None:
    expected = await sample(engine, "x")
    with pytest.MonkeyPatch.context() as patch:
        forward = failing(engine, lambda _: True, "broken")
        patch.setattr(engine._served().network, "forward", forward)
        faults = await asyncio.gather(*(sample(engine, p) for p in PROMPTS), return_exceptions=True)
    assert all(isinstance(fault, EngineFault) for fault in faults)
    assert ids_of(await sample(engine, "x")) == ids_of(expected)


async def test_a_bug_in_the_schedule_is_retryable_and_the_next_request_is_drawn(
    engine: TransformersEngine,
) -> None:
    def break_it(*_: object) -> None:
        raise ValueError("a bug")

    with watched("_start_reading", Schedule, break_it), pytest.raises(EngineFault) as fault:
        await sample(engine, "x")
    assert fault.value.retryable
    assert await sample(engine, "x")


async def test_logits_that_are_no_numbers_fail_their_own_request_alone(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await sample(engine, "Write", n=2)
    network = engine._served().network
    plain = network.forward
    bad = torch.tensor([7, 11, 13])

    def forward(*arguments: Any, **named: Any) -> Any:
        out = plain(*arguments, **named)
        ids = named["input_ids"]
        if ids.shape[1] >= 3:
            out.logits[(ids[:, -3:] == bad).all(dim=1)] = torch.nan
        return out

    monkeypatch.setattr(network, "forward", forward)
    fine, fault = await asyncio.gather(
        sample(engine, "Write", n=2),
        engine.generate(bad.tolist(), SamplingParams(n=2, max_tokens=8)),
        return_exceptions=True,
    )
    assert ids_of(fine) == ids_of(expected)  # type: ignore[arg-type]
    assert isinstance(fault, NotFinite)
    assert "version 1 gives logits that are not finite" in fault.message


def raising(for_prompt: list[int], plain: Callable[..., Any], error: Exception) -> Any:
    """Return a row's method; it raises for rows of this prompt."""

    def method(row: JobRow, *arguments: Any) -> Any:
        if row.request.prompt == for_prompt:
            raise error
        return plain(row, *arguments)

    return method


@pytest.mark.parametrize("method", ["add", "completion", "uniform"])
@pytest.mark.parametrize("error", [ValueError("odd"), InvalidInput("odd")])
async def test_a_sample_that_breaks_fails_its_own_request_alone(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch, method: str, error: Exception
) -> None:
    expected = [await sample(engine, p, n=2) for p in PROMPTS]
    bad = [3, 5]
    monkeypatch.setattr(JobRow, method, raising(bad, getattr(JobRow, method), error))
    work = [asyncio.create_task(sample(engine, p, n=2)) for p in PROMPTS]
    broken = engine.generate(bad, SamplingParams(n=3, max_tokens=8))
    async with asyncio.timeout(30):
        with pytest.raises((EngineFault, InvalidInput), match="odd"):
            await broken
        found = await asyncio.gather(*work)
    assert [ids_of(one) for one in found] == [ids_of(one) for one in expected]


async def test_nobody_waits_for_ever_where_even_the_repair_fails(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Decoder, "step", lambda _: 1 / 0)
        patch.setattr(Schedule, "put_back", lambda _: 1 / 0)
        async with asyncio.timeout(30):
            work = (sample(engine, p) for p in PROMPTS)
            faults = await asyncio.gather(*work, return_exceptions=True)
    assert all(isinstance(fault, EngineFault) for fault in faults)
    assert await sample(engine, "x")


async def test_a_form_that_allows_no_token_fails_its_own_request_alone(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = torch.zeros(engine.vocabulary.size, dtype=torch.bool)
    monkeypatch.setattr(HeldForm, "allowed", lambda _: nothing)
    fine, fault = await asyncio.gather(
        sample(engine, "Write", n=2),
        sample(engine, "x", structure={"choice": ["x"]}),
        return_exceptions=True,
    )
    assert isinstance(fine, list)
    assert isinstance(fault, NotFinite)
    assert "request's options" in fault.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e38])
async def test_weights_that_overflow_give_a_fault_and_no_tokens(
    engine: TransformersEngine, folders: list[Path], tmp_path: Path, value: float
) -> None:
    for file in folders[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"].fill_(value)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    await load(engine, tmp_path, 2)
    with pytest.raises(NotFinite, match="version 2 gives logits that are not finite"):
        await sample(engine, "x", n=2)


# Loading


@pytest.mark.slow
async def test_weights_for_which_there_is_no_memory_are_tried_again_and_never_refused(
    engine: TransformersEngine, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, num_failures = open_model_really, 0

    def open_model(*arguments: Any) -> Any:
        nonlocal num_failures
        if num_failures:
            num_failures -= 1
            torch.empty(2**60)  # the allocator's own error
        return plain(*arguments)

    monkeypatch.setattr(engine_transformers, "open_model", open_model)
    monkeypatch.setattr(engine_transformers, "_LOAD_WAITS_S", (0.0, 0.0))
    num_failures = 2
    await load(engine, folders[1], 2)
    num_failures = 3
    with pytest.raises(EngineFault, match="out of memory while .* was loaded") as fault:
        await load(engine, folders[0], 3)
    assert fault.value.retryable
    assert (await sample(engine, "x"))[0].policy.version == 2, "the old weights stay"


def test_errors_of_allocators_are_told_from_others() -> None:
    def raised(action: Callable[[], object]) -> BaseException:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is
            action()
        return caught.value

    assert is_out_of_memory(raised(lambda: torch.empty(2**60)))
    assert is_out_of_memory(raised(lambda: bytearray(2**62)))
    assert is_out_of_memory(OSError(12, "Cannot allocate memory"))
    wrapped = ValueError("cannot be read")
    wrapped.__cause__ = MemoryError()
    assert is_out_of_memory(wrapped)
    assert not is_out_of_memory(raised(lambda: torch.empty(2, 3) @ torch.empty(2, 3)))


# Known prefixes


@pytest.mark.slow
async def test_a_prefix_that_was_read_before_is_not_read_again_and_changes_nothing(
    folders: list[Path],
) -> None:
    system = LONG * 3
    questions = [system + prompt for prompt in PROMPTS]
    alone = {}
    for question in questions:
        fresh = await make_engine(folders[0])
        alone[question] = (await sample(fresh, question, n=3), await sample(fresh, question, n=1))
        await fresh.close()
    engine = await make_engine(folders[0])
    num_tokens = len(engine.vocabulary.encode(system))
    assert num_tokens > 48
    found = await asyncio.gather(*(sample(engine, question, n=3) for question in questions))
    assert engine._schedule.num_known >= 4 * 32, "four of five found what the first had read"
    read_before = engine._schedule.num_read
    again = [await sample(engine, question, n=1) for question in questions]
    assert engine._schedule.num_read - read_before < 5 * 48
    for question, many, one in zip(questions, found, again, strict=True):
        for ours, expected in zip(
            (*many, *one), (*alone[question][0], *alone[question][1]), strict=True
        ):
            assert ours.token_ids == expected.token_ids
            assert ours.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    await engine.close()


async def test_a_conversation_goes_on_from_its_own_answers(engine: TransformersEngine) -> None:
    ids = engine.vocabulary.encode("Write solve(x). Return x plus 1.")
    sampling = SamplingParams(max_tokens=30, temperature=0.0)
    (first,) = await engine.generate(ids, sampling)
    known_before = engine._schedule.num_known
    further = [*ids, *first.token_ids, 5, 6]
    (second,) = await engine.generate(further, sampling)
    whole = (len(ids) + len(first.token_ids) - 1) // 16 * 16
    assert engine._schedule.num_known - known_before == whole
    engine._schedule.forget()
    (expected,) = await engine.generate(further, sampling)
    assert second.token_ids == expected.token_ids
    assert second.logprobs == pytest.approx(expected.logprobs, abs=1e-4)


async def test_new_weights_know_nothing_of_what_old_ones_read(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    await sample(engine, LONG)
    await load(engine, folders[1], 2)
    known_before = engine._schedule.num_known
    found = await sample(engine, LONG)
    assert engine._schedule.num_known == known_before
    fresh = await make_engine(folders[1])
    assert ids_of(found) == ids_of(await sample(fresh, LONG))
    await fresh.close()


async def test_rows_take_the_room_of_what_is_known(
    engine: TransformersEngine, folders: list[Path]
) -> None:
    small = await make_engine(folders[0], inference_cache_bytes=cost_of(engine).of(2, 120))
    await sample(small, LONG, max_tokens=4)
    assert small._schedule._known.num_bytes > 0
    with watched("step", Decoder, lambda _: sizes.append(small._schedule._known.num_bytes)):
        sizes: list[int] = []
        await sample(small, "x", n=2, max_tokens=118)
    await small.close()
    assert sizes[0] == 0
