"""A run followed from outside: over a lost connection, a stop and a failure."""

from collections import deque
from collections.abc import AsyncIterator

import pytest

from assay_shared.clients import TrainerClient
from assay_shared.clients.trainer import RunInfo, RunRequest
from assay_shared.errors import Conflict, InternalFault, Unreachable
from assay_shared.runs.run_folder import Event, RunStatus
from assay_trainer.service.follow import follow

REQUEST = RunRequest(name="one", config={})


class ScriptedTrainer(TrainerClient):
    """Each stream of events is an entry of `streams`: the number of events, and how it ends."""

    def __init__(self, *streams: tuple[int, str]) -> None:
        super().__init__("http://127.0.0.1:1")
        self.streams = deque(streams)
        self.state = ""
        self.resumed = 0

    async def start(self, request: RunRequest) -> RunInfo:
        if self.state:
            raise Conflict("run one exists")
        self.state = "running"
        return await self.run(request.name)

    async def run(self, name: str) -> RunInfo:
        return RunInfo(name=name, folder="", status=RunStatus(state=self.state, message="so it is"))

    async def resume(self, name: str) -> RunInfo:
        self.resumed += 1
        self.state = "running"
        return await self.run(name)

    async def events(self, name: str) -> AsyncIterator[Event]:
        num_events, end = self.streams.popleft()
        for number in range(num_events):
            yield Event(kind="step", time=0.0, data={"step": number})
        if end.startswith("lost"):
            self.state = end.removeprefix("lost ")
            raise Unreachable("connection reset")
        self.state = end


@pytest.mark.parametrize(
    ("streams", "num_resumed"),
    [
        ([(3, "finished")], 0),
        ([(1, "lost running"), (3, "finished")], 0),
        ([(2, "lost failed"), (3, "finished")], 1),
        ([(2, "lost stopped"), (2, "lost failed"), (3, "finished")], 2),
        ([(3, "lost finished"), (3, "finished")], 0),
    ],
)
async def test_each_event_is_shown_once_and_an_interrupted_run_goes_on(
    streams: list[tuple[int, str]], num_resumed: int
) -> None:
    trainer, shown = ScriptedTrainer(*streams), list[Event]()
    await follow(trainer, REQUEST, shown.append)
    assert [event.data["step"] for event in shown] == [0, 1, 2]
    assert trainer.resumed == num_resumed


@pytest.mark.parametrize("state", ["failed", "stopped"])
async def test_a_run_that_ends_in_another_way_is_an_error_and_is_gone_on_with_next_time(
    state: str,
) -> None:
    trainer = ScriptedTrainer((1, state), (3, "finished"))
    with pytest.raises(InternalFault, match=f"the run {state}: so it is"):
        await follow(trainer, REQUEST, lambda event: None)
    await follow(trainer, REQUEST, lambda event: None)
    assert trainer.resumed == 1


async def test_a_run_that_is_interrupted_for_ever_is_given_up() -> None:
    trainer = ScriptedTrainer(*[(1, "lost failed")] * 30)
    with pytest.raises(InternalFault, match="interrupted 20 times"):
        await follow(trainer, REQUEST, lambda event: None)
