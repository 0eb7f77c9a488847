"""Events of a run to many clients: by position, at a cost independent of its length."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay_shared.errors import InvalidInput
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.service.event_stream import EventStreams, check_position


class Run:
    """A run with a life until it is told otherwise."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder.create(path)
        self.alive = True
        self.streams = EventStreams()

    def follow(self, after: int = 0) -> AsyncIterator[bytes]:
        return self.streams.follow(self.folder.events, after, lambda: self.alive)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "one")


async def collect(parts: AsyncIterator[bytes]) -> list[tuple[int, int]]:
    """The ids and steps of the events."""
    found = []
    for frame in b"".join([part async for part in parts]).split(b"\n\n"):
        if frame.startswith(b"id: "):
            head, data = frame.split(b"\n")
            number = json.loads(data.removeprefix(b"data: "))["data"]["step"]
            found.append((int(head.removeprefix(b"id: ")), number))
    return found


async def test_all_events_come_once_and_in_order_those_of_now_too(run: Run) -> None:
    for step in range(5_000):
        run.folder.record("step", step=step, text="é" * 100)
    clients = [asyncio.create_task(collect(run.follow())) for _ in range(3)]
    for step in range(5_000, 5_020):
        await asyncio.sleep(0.02)
        run.folder.record("step", step=step)
    run.alive = False
    for client in clients:
        assert [step for _, step in await client] == list(range(5_020))


async def test_a_client_goes_on_after_the_event_that_it_names(run: Run) -> None:
    for step in range(10):
        run.folder.record("step", step=step)
    run.alive = False
    seen = await collect(run.follow())
    last_id, last_step = seen[3]
    check_position(run.folder.events, last_id)
    assert await collect(run.follow(last_id)) == seen[last_step + 1 :]
    for wrong in (last_id + 1, 10**9):
        with pytest.raises(InvalidInput, match=f"no event of this run has the id {wrong}"):
            check_position(run.folder.events, wrong)


@pytest.mark.slow
async def test_half_a_line_waits_for_its_end_and_a_long_line_is_one_event(run: Run) -> None:
    run.folder.record("step", step=0, text="x" * 1_000_000)
    with run.folder.events.open("a") as file:
        file.write('{"time": 1, "kind": "step", "data": ')
        file.flush()
        client = asyncio.create_task(collect(run.follow()))
        await asyncio.sleep(0.5)
        file.write('{"step": 1}}\n')
    await asyncio.sleep(0.5)
    run.alive = False
    assert [step for _, step in await client] == [0, 1]


@pytest.mark.slow
async def test_a_hundred_clients_of_a_long_run_cost_next_to_nothing(run: Run) -> None:
    line = json.dumps({"time": 1.0, "kind": "step", "data": {"step": 1, "text": "x" * 500}}) + "\n"
    run.folder.events.write_text(line * 100_000)
    end = run.folder.events.stat().st_size
    clients = [asyncio.create_task(collect(run.follow(end))) for _ in range(100)]
    await asyncio.sleep(0.5)
    started = time.process_time()
    await asyncio.sleep(2)
    assert time.process_time() - started < 1.0
    run.folder.record("step", step=2)
    await asyncio.sleep(0.5)
    run.alive = False
    assert [[step for _, step in await client] for client in clients] == [[2]] * 100


async def test_who_leaves_ends_the_reader_and_a_run_that_goes_on_is_read_on(run: Run) -> None:
    run.folder.record("step", step=0)
    parts = run.follow()
    assert b'"step":0' in await anext(parts)
    await parts.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert not run.streams._tails
    run.alive = False
    assert len(await collect(run.follow())) == 1
    run.folder.record("step", step=1)
    assert len(await collect(run.follow())) == 2
