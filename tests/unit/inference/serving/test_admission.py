"""Admission: starts, waits, refusals; pauses and drains."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from assay_inference.serving.admission import Admission, Door, QueueLimits
from assay_shared.errors import Conflict, NotReady, Overloaded
from assay_shared.telemetry.context import WorkPurpose, client_scope, purpose_scope
from assay_shared.types import Priority


class Desk:
    """An admission, and requests to stay until they are told to go."""

    def __init__(self, **limits: Any) -> None:
        self.registry = CollectorRegistry()
        values: dict[str, Any] = {
            "capacity": lambda: 2,
            "max_waiting": 8,
            "deadline_s": 60.0,
            "max_pause_s": 60.0,
        }
        self.admission = Admission(QueueLimits(**(values | limits)), self.registry)
        self.started: list[str] = []
        self._go: dict[str, asyncio.Event] = {}

    async def ask(
        self,
        name: str,
        priority: str = "training",
        *,
        run: str = "a",
        client: str = "",
        n: int = 1,
        deadline_s: float | None = None,
    ) -> asyncio.Task[None]:
        """Returns once the request has started or waits."""

        async def draw() -> None:
            with purpose_scope(WorkPurpose(priority, run, deadline_s)), client_scope(client):
                async with self.admission.enter(n, 10 * n, 10 * n):
                    self.started.append(name)
                    await self._event(name).wait()

        task = asyncio.create_task(draw())
        await settle()
        return task

    async def end(self, *names: str) -> None:
        for name in names:
            self._event(name).set()
        await settle()

    def refused(self, reason: str, priority: str = "training") -> float | None:
        labels = {"reason": reason, "priority": priority}
        return self.registry.get_sample_value("assay_inference_refused_total", labels)

    def _event(self, name: str) -> asyncio.Event:
        return self._go.setdefault(name, asyncio.Event())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


MakeDesk = Callable[..., Desk]


@pytest.fixture
async def make_desk() -> AsyncIterator[MakeDesk]:
    """All requests in flight of a desk end with the test."""
    before = asyncio.all_tasks()
    yield Desk
    for task in asyncio.all_tasks() - before - {asyncio.current_task()}:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_engine_is_kept_full_and_a_request_of_n_counts_n(make_desk: MakeDesk) -> None:
    desk = make_desk(capacity=lambda: 4)
    await desk.ask("3", n=3)
    await desk.ask("8", n=8)
    assert desk.started == ["3", "8"], "there was room for one more"
    assert desk.admission.num_running == 11
    await desk.ask("1")
    await desk.end("3")
    assert desk.started == ["3", "8"]
    await desk.end("8")
    assert desk.started == ["3", "8", "1"]
    await desk.end("1")
    assert desk.admission.num_running == 0


async def test_evaluation_comes_before_interactive_before_training(make_desk: MakeDesk) -> None:
    desk = make_desk(capacity=lambda: 1)
    for name in ("first", "training", "interactive", "evaluation"):
        await desk.ask(name, "training" if name == "first" else name)
    assert desk.admission.waiting == dict.fromkeys(Priority, 1)
    await desk.end("first", "training", "interactive", "evaluation")
    assert desk.started == ["first", "evaluation", "interactive", "training"]
    labels = {"priority": "evaluation"}
    count = desk.registry.get_sample_value("assay_inference_wait_seconds_count", labels)
    assert count == 1


async def test_the_order_is_a_setting(make_desk: MakeDesk) -> None:
    order = (Priority.TRAINING, Priority.INTERACTIVE, Priority.EVALUATION)
    desk = make_desk(capacity=lambda: 1, order=order)
    for name in ("first", "evaluation", "training"):
        await desk.ask(name, "training" if name == "first" else name)
    await desk.end("first")
    assert desk.started == ["first", "training"]


async def test_what_cannot_start_before_its_deadline_fails_and_is_never_drawn(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk(capacity=lambda: 1)
    await desk.ask("first")
    late = await desk.ask("late", deadline_s=0.02)
    with pytest.raises(Overloaded, match=r"could not start within 0.02 s") as raised:
        await late
    assert raised.value.retry_after_s
    await desk.end("first")
    assert desk.started == ["first"]
    assert desk.refused("deadline") == 1


async def test_a_full_queue_refuses_and_says_when_to_come_again(make_desk: MakeDesk) -> None:
    desk = make_desk(capacity=lambda: 1, max_waiting=4)
    await desk.ask("first")
    await desk.ask("second", n=4)
    with pytest.raises(Overloaded, match="too many sequences wait") as raised:
        await (await desk.ask("third"))
    assert raised.value.retry_after_s == 10.0, "nothing ended so far"
    await desk.end("first")
    await desk.ask("third", n=4)
    with pytest.raises(Overloaded) as raised:
        await (await desk.ask("fourth"))
    assert raised.value.retry_after_s == 60.0, "nine sequences at one in ten seconds"
    assert desk.refused("queue_full") == 2


async def test_another_run_takes_the_place_of_who_fills_the_queue(make_desk: MakeDesk) -> None:
    desk = make_desk(capacity=lambda: 1, max_waiting=3)
    await desk.ask("first")
    greedy = [await desk.ask(f"a{i}", run="a") for i in range(3)]
    await desk.ask("b", run="b")
    with pytest.raises(Overloaded, match="others come first"):
        await greedy[-1]
    await desk.end("first", "a0", "a1", "b")
    assert sorted(desk.started) == ["a0", "a1", "b", "first"]
    assert desk.refused("displaced") == 1


async def test_a_client_that_goes_away_leaves_the_queue(make_desk: MakeDesk) -> None:
    desk = make_desk(capacity=lambda: 1)
    running = await desk.ask("first")
    gone = await desk.ask("gone")
    gone.cancel()
    await settle()
    assert sum(desk.admission.waiting.values()) == 0
    await desk.ask("last")
    running.cancel()
    await settle()
    assert desk.started == ["first", "last"]
    assert desk.refused("client_gone") == 1


async def test_a_turn_that_comes_as_its_client_goes_is_handed_on(make_desk: MakeDesk) -> None:
    desk = make_desk(capacity=lambda: 1)
    await desk.ask("first")
    gone, last = await desk.ask("gone"), await desk.ask("last")
    desk._event("first").set()
    await asyncio.sleep(0)
    gone.cancel()
    await settle()
    assert desk.admission.num_running == 1
    assert not last.done()
    await desk.end("last")
    assert desk.admission.num_running == 0


async def test_a_pause_keeps_what_waits_and_lets_the_running_finish(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await desk.ask("first")
    pausing = asyncio.create_task(desk.admission.pause(30.0))
    await desk.ask("waits")
    assert not pausing.done()
    await desk.end("first")
    status = await pausing
    assert (status.state, status.num_running) == (Door.PAUSED, 0)
    assert status.num_waiting[Priority.TRAINING] == 1
    again = await desk.admission.pause(0.0)
    assert again.pause_left_s == pytest.approx(60.0, abs=1.0)
    assert desk.admission.not_ready_because() is None
    assert desk.admission.resume().state is Door.OPEN
    assert desk.admission.resume().pause_left_s is None
    await settle()
    assert desk.started == ["first", "waits"]


async def test_a_pause_that_nobody_ends_ends_by_itself(make_desk: MakeDesk) -> None:
    desk = make_desk(max_pause_s=0.02)
    await desk.admission.pause(0.0)
    waits = await desk.ask("waits")
    await desk.end("waits")
    await asyncio.wait_for(waits, 10)
    assert desk.admission.status.state is Door.OPEN


async def test_a_deadline_counts_in_a_pause_too(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await desk.admission.pause(0.0)
    with pytest.raises(Overloaded, match="could not start"):
        await (await desk.ask("late", deadline_s=0.01))


async def test_a_drain_refuses_the_new_and_finishes_the_rest(make_desk: MakeDesk) -> None:
    desk = make_desk(capacity=lambda: 1)
    await desk.ask("first")
    await desk.ask("waits")
    await desk.admission.pause(0.0)
    draining = asyncio.create_task(desk.admission.drain(30.0))
    await settle()
    with pytest.raises(NotReady, match="draining") as raised:
        await (await desk.ask("new"))
    assert raised.value.retry_after_s
    assert desk.admission.not_ready_because() == "the service is draining"
    with pytest.raises(Conflict):
        await desk.admission.pause(0.0)
    await desk.end("first")
    assert not draining.done()
    await desk.end("waits")
    status = await draining
    assert (status.state, status.num_running) == (Door.DRAINING, 0)
    assert (await desk.admission.drain(0.0)) == status
    desk.admission.resume()
    await desk.ask("new")
    assert desk.started == ["first", "waits", "new"]


async def test_a_drain_answers_at_its_time_limit(make_desk: MakeDesk) -> None:
    desk = make_desk()
    await desk.ask("long")
    assert (await desk.admission.drain(0.01)).num_running == 1


async def test_a_request_waits_while_the_cache_is_full_of_tokens_asked_for() -> None:
    limits = {"capacity": lambda: 100, "token_capacity": lambda: 30}
    desk = Desk(**limits)
    await desk.ask("a", n=2)
    await desk.ask("b", n=2)  # begun below the limit, ends above it
    await desk.ask("c", n=1)
    assert desk.started == ["a", "b"]
    await desk.end("a")
    assert desk.started == ["a", "b", "c"]
    await desk.end("b", "c")
    assert desk.admission.status.num_running == 0


async def test_a_client_below_its_share_does_not_wait_for_the_large_requests_of_another() -> None:
    desk = Desk(capacity=lambda: 8, max_waiting=1000, token_capacity=lambda: 100)
    for name in ("large", "larger", "largest"):
        await desk.ask(name, client="greedy", n=64)
    assert desk.started == ["large"]
    await desk.ask("first", client="modest", n=3)
    await desk.ask("second", client="modest", n=2)  # begun below its half, ends above it
    await desk.ask("third", client="modest", n=1)
    assert desk.started == ["large", "first", "second"]
    await desk.ask("other", client="third")
    assert desk.started[3:] == ["other"]
    await desk.end("first", "second")
    assert desk.started[4:] == ["third"]
    await desk.end("large", "third", "other")
    assert desk.started[5:] == ["larger"]
    await desk.end("larger", "largest")
    assert desk.admission.status.num_running == 0


async def test_more_clients_than_places_do_not_pile_up_in_the_engine() -> None:
    desk = Desk(max_waiting=1000)
    for number in range(10):
        await desk.ask(str(number), client=str(number), n=4)
    assert desk.started == ["0", "1"]
    await desk.end(*map(str, range(10)))
    assert desk.admission.status.num_running == 0
