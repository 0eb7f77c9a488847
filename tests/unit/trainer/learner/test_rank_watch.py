"""The end of another rank's process is noticed, whatever an operation is waiting for."""

import queue
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from assay_shared.errors import Unreachable
from assay_trainer.learner import rank_watch
from assay_trainer.learner.rank_watch import Meeting, RankWatch, meet
from tests.conftest import wait_until
from tests.support.ports import free_port

HOST = "127.0.0.1"


def come() -> None:
    """All processes do."""


def met(size: int, *, strangers: int = 0, silent: int = 0) -> list[list[socket.socket]]:
    """Return the connections of each rank; the silent strangers stay for as long as they can."""
    meetings: queue.Queue[Meeting] = queue.Queue()
    staying: list[socket.socket] = []

    def told(given: Meeting | None) -> Meeting:
        if given is None:
            return meetings.get(timeout=60)
        for _ in range(strangers):
            with socket.create_connection((HOST, given[0])) as stranger:
                stranger.sendall(b"x" * 32)
        for _ in range(silent):
            staying.append(socket.create_connection((HOST, given[0])))
        for _ in range(size - 1):
            meetings.put(given)
        return given

    with ThreadPoolExecutor(size) as pool:
        connections = list(pool.map(lambda rank: meet(rank, size, HOST, told, come), range(size)))
    for stranger in staying:
        stranger.close()
    return connections


def is_lost(watch: RankWatch) -> bool:
    with suppress(Unreachable), watch.inside():
        return False
    return True


def test_each_rank_meets_the_first_and_a_stranger_meets_none() -> None:
    first, *others = met(4, strangers=2)
    assert len(first) == 3
    assert all(len(one) == 1 for one in others)
    for number, (peer,) in enumerate(others):
        peer.sendall(bytes([number]))
    assert sorted(peer.recv(1)[0] for peer in first) == [0, 1, 2]
    for peer in (*first, *(one[0] for one in others)):
        peer.close()


def test_strangers_that_say_nothing_delay_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_watch, "_MOST_SILENT", 4)
    began = time.monotonic()
    connections = met(2, silent=20)
    assert time.monotonic() - began < 20
    for (peer,) in connections:
        peer.close()


def test_a_long_wait_for_a_rank_is_told_once_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rank_watch, "_TELL_S", 0.0)
    monkeypatch.setattr(rank_watch, "MEET_S", 1.0)
    others = "1 other processes of this training"
    with pytest.raises(Unreachable, match=f"waited 1 s for {others}"):
        meet(0, 2, HOST, lambda given: given or (0, b""), come)
    assert capsys.readouterr().err == f"waiting for {others} (1 s at most)\n"
    with pytest.raises(Unreachable, match=r"waited 1 s for the first process .*: .*refused"):
        rank_watch.wait_for_listener(HOST, free_port())


def test_a_rank_that_will_never_come_ends_the_wait_for_it() -> None:
    def check() -> None:
        raise Unreachable("process 1 ended with code 1", service="trainer")

    began = time.monotonic()
    with pytest.raises(Unreachable, match="process 1 ended with code 1"):
        meet(0, 2, HOST, lambda given: given or (0, b""), check)
    assert time.monotonic() - began < 20


def test_the_next_operation_is_refused_once_a_rank_is_lost() -> None:
    first, (second,), (third,) = met(3)
    watch = RankWatch(first)
    assert not is_lost(watch)
    second.close()
    wait_until(lambda: is_lost(watch), "the loss to be noticed")
    with pytest.raises(Unreachable, match="a process of this training has ended"), watch.inside():
        pytest.fail("it began")
    watch.close()
    third.close()


def test_a_rank_that_says_goodbye_is_not_lost() -> None:
    (of_second,), (of_first,) = met(2)
    first, second = RankWatch([of_second]), RankWatch([of_first])
    first.close()
    second.close()
    time.sleep(0.5)
    assert not is_lost(first)
    assert not is_lost(second)


WAITS = """
import time
from assay_trainer.learner import rank_watch
from tests.unit.trainer.learner.test_rank_watch import met

rank_watch._GRACE_S = 0.5
(of_second,), (of_first,) = met(2)
watch = rank_watch.RankWatch([of_second])
with watch.inside():
    of_first.close()
    time.sleep(60)
"""


def test_a_process_that_waits_for_a_lost_rank_ends() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: {rank_watch.LOST}, and this one waits for it; resume the run" in done.stderr
    assert time.monotonic() - began < 50
