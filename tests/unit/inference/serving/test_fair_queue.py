"""The order of requests: classes by rank with a reserved share, callers in turn by tokens."""

import asyncio
from collections import Counter

import pytest

from assay_inference.serving.fair_queue import FairQueue, PriorityQueue, Ticket
from assay_shared.types import Priority

EVALUATION, INTERACTIVE, TRAINING = Priority


def ticket(
    caller: str = "a", priority: Priority = TRAINING, num_tokens: int = 10, num_sequences: int = 1
) -> Ticket:
    turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    client, _, run = caller.partition("/")
    return Ticket(priority, client, run, num_sequences, num_tokens, turn)


def filled(queue: FairQueue, **numbers: int) -> FairQueue:
    for caller, number in numbers.items():
        for _ in range(number):
            queue.push(ticket(caller))
    return queue


async def test_a_caller_with_thousands_waiting_does_not_delay_another() -> None:
    queue = filled(FairQueue(), greedy=5000, modest=5)
    first = [queue.pop().client for _ in range(10)]
    assert first.count("modest") == 5
    assert queue.num_sequences == 4995


async def test_a_client_gets_no_more_by_naming_many_runs() -> None:
    queue = FairQueue()
    for number in range(40):
        queue.push(ticket(f"many/run{number}"))
    for _ in range(5):
        queue.push(ticket("one"))
    assert [queue.pop().client for _ in range(10)].count("one") == 5


async def test_the_runs_of_one_client_take_turns() -> None:
    queue = FairQueue()
    for _ in range(100):
        queue.push(ticket("mesh/greedy"))
    for _ in range(5):
        queue.push(ticket("mesh/modest"))
    assert [queue.pop().run for _ in range(10)].count("modest") == 5


async def test_a_full_queue_takes_places_from_the_greediest_run_of_the_same_client() -> None:
    queue = classes(0.0)
    for _ in range(8):
        queue.push(ticket("mesh/greedy"))
    leaving = queue.displaced_by(ticket("mesh/modest"), 8)
    assert leaving is not None
    assert [one.run for one in leaving] == ["greedy"]
    assert queue.displaced_by(ticket("mesh/greedy"), 8) is None


async def test_shares_are_of_tokens_and_not_of_requests() -> None:
    queue = FairQueue()
    for _ in range(100):
        queue.push(ticket("long", num_tokens=1000))
        queue.push(ticket("short", num_tokens=100))
    given: Counter[str] = Counter()
    for _ in range(55):
        one = queue.pop()
        given[one.client] += one.num_tokens
    assert abs(given["long"] - given["short"]) <= 1000


async def test_a_silence_saves_nothing_up_and_forgets_no_debt() -> None:
    queue = filled(FairQueue(), a=50)
    for _ in range(40):
        queue.pop()
    filled(queue, b=10)
    turns = "".join(queue.pop().client for _ in range(8))
    assert turns.count("a") == turns.count("b") == 4
    queue = FairQueue()
    queue.push(ticket("a", num_tokens=1000))
    queue.push(ticket("b"))
    assert queue.pop().client == "a"
    filled(queue, a=1, b=3)
    assert "".join(queue.pop().client for _ in range(5)) == "bbbba"


async def test_who_gives_up_leaves_no_trace() -> None:
    queue = FairQueue()
    tickets = [ticket("a") for _ in range(3)]
    for one in tickets:
        queue.push(one)
    queue.remove(tickets[0])
    queue.remove(tickets[0])
    assert queue.num_sequences == 2
    assert queue.pop() is tickets[1]


async def test_a_callers_own_requests_keep_their_order() -> None:
    queue = FairQueue()
    tickets = [ticket("a", num_tokens=n) for n in (90, 10, 50)]
    for one in tickets:
        queue.push(one)
    assert [queue.pop() for _ in range(3)] == tickets


def classes(share: float = 0.1, **numbers: int) -> PriorityQueue:
    queue = PriorityQueue(tuple(Priority), share)
    for name, number in numbers.items():
        for _ in range(number):
            queue.push(ticket(priority=Priority(name)))
    return queue


def popped(queue: PriorityQueue, number: int) -> Counter[Priority]:
    taken = [queue.pop() for _ in range(number)]
    return Counter(one.priority for one in taken if one is not None)


async def test_without_a_reserved_share_the_order_is_strict() -> None:
    queue = classes(0.0, training=5, evaluation=5, interactive=5)
    order = [one.priority for _ in range(15) if (one := queue.pop())]
    assert order == [EVALUATION] * 5 + [INTERACTIVE] * 5 + [TRAINING] * 5
    assert queue.pop() is None


async def test_a_flood_of_evaluations_leaves_the_others_their_share() -> None:
    queue = classes(0.1, training=1000, evaluation=1000, interactive=1000)
    given = popped(queue, 500)
    assert given[EVALUATION] == pytest.approx(400, abs=5)
    assert given[INTERACTIVE] == pytest.approx(50, abs=5)
    assert given[TRAINING] == pytest.approx(50, abs=5)


async def test_a_share_is_earned_only_while_waiting() -> None:
    queue = classes(0.1, evaluation=300)
    popped(queue, 200)
    queue.push(ticket(priority=TRAINING))
    assert popped(queue, 9) == {EVALUATION: 9}
    alone = classes(0.1, training=100)
    popped(alone, 50)
    alone.push(ticket(priority=EVALUATION))
    first = alone.pop()
    assert first is not None
    assert first.priority is EVALUATION


async def test_a_full_queue_gives_the_place_of_the_greedy_to_the_modest() -> None:
    queue = classes(0.0, training=8)
    leaving = queue.displaced_by(ticket("b"), 8)
    assert leaving is not None
    assert [one.client for one in leaving] == ["a"]
    assert queue.displaced_by(ticket("a"), 8) is None, "its own are first come, first served"
    for _ in range(4):
        queue.push(ticket("b"))
    assert queue.displaced_by(ticket("b", num_sequences=4), 12) is None, "as much as the others"


async def test_a_full_queue_gives_places_to_the_class_before_and_keeps_a_share() -> None:
    queue = classes(0.25, training=8)
    assert len(queue.displaced_by(ticket(priority=EVALUATION, num_sequences=3), 8) or ()) == 3
    assert queue.displaced_by(ticket(priority=EVALUATION, num_sequences=7), 8) is None
    queue = classes(0.25, evaluation=8)
    assert len(queue.displaced_by(ticket(num_sequences=2), 8) or ()) == 2
    assert queue.displaced_by(ticket(num_sequences=3), 8) is None
