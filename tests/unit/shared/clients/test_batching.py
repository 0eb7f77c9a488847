"""Groups in batches, asked again while it can help."""

import asyncio

import pytest

from assay_shared.clients.batching import score_answers, score_groups
from assay_shared.errors import InvalidInput
from assay_shared.types import (
    Failure,
    FailureClass,
    GroupFailed,
    ScoreBatch,
    ScoreBatchResponse,
    Scored,
    ScoreRequest,
    ScoreResponse,
    Unscored,
)
from tests.support.fakes import FAILURE, make_rewards, make_task, scored

FATAL = Failure(failure_class=FailureClass.INTERNAL, service="r", message="bad", retryable=False)


class Planned:
    """Answers each task's requests with the responses planned for it; the last one repeats."""

    def __init__(self, **plan: list[ScoreResponse | GroupFailed]) -> None:
        self.plan = plan
        self.batches: list[list[str]] = []
        self.keys: set[str | None] = set()

    async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse:
        self.batches.append([request.task.id for request in batch.requests])
        self.keys |= {request.key for request in batch.requests}
        responses = []
        for request in batch.requests:
            left = self.plan[request.task.id]
            responses.append(left.pop(0) if len(left) > 1 else left[0])
        return ScoreBatchResponse(responses=tuple(responses))


def response(*values: float | None) -> ScoreResponse:
    return ScoreResponse(rewards=make_rewards(*values), scorer="s@0")


def request(name: str, num_answers: int = 2) -> ScoreRequest:
    return ScoreRequest(task=make_task(name), answers=tuple("abcdefgh"[:num_answers]))


async def test_only_what_failed_is_asked_for_again_and_as_a_whole_group() -> None:
    rewarder = Planned(
        a=[response(1, 0)],
        b=[response(1, None), response(0, 0)],
        c=[GroupFailed(failure=FAILURE), response(1, 1)],
        d=[GroupFailed(failure=FATAL)],
    )
    done: list[int] = []
    found = await score_groups(
        rewarder, [request(name) for name in "abcd"], give_up_after_s=5.0, on_scored=done.append
    )
    assert rewarder.batches == [["a", "b", "c", "d"], ["b", "c"]]
    assert found == [response(1, 0), response(0, 0), response(1, 1), GroupFailed(failure=FATAL)]
    assert sum(done) == 4
    assert len(rewarder.keys) == 4, "asked again under the same keys"


async def test_the_response_with_the_most_rewards_counts_and_none_is_mixed() -> None:
    rewarder = Planned(a=[response(1, 1, None), response(0, None, None)])
    found = await score_groups(rewarder, [request("a", 3)], give_up_after_s=0.6)
    assert len(rewarder.batches) == 2
    assert found == [response(1, 1, None)]


@pytest.mark.slow
async def test_patience_starts_when_all_were_asked_for_once() -> None:
    class Slow(Planned):
        async def score_batch(self, batch: ScoreBatch) -> ScoreBatchResponse:
            await asyncio.sleep(0.4)
            return await super().score_batch(batch)

    rewarder = Slow(a=[response(None, None), response(1, 1)], b=[response(0, 0)])
    requests = [request("a"), request("b")]
    found = await score_groups(rewarder, requests, give_up_after_s=0.6, batch_size=1)
    assert rewarder.batches == [["a"], ["b"], ["a"]]
    assert found[0] == response(1, 1)


async def test_batches_are_cut_by_number_and_by_weight() -> None:
    rewarder = Planned(a=[response(1, 1)], b=[response(0, 0)])
    few = [request("a"), request("b"), request("a")]
    await score_groups(rewarder, few, give_up_after_s=0, batch_size=2)
    assert rewarder.batches == [["a", "b"], ["a"]]
    rewarder.batches.clear()
    heavy = ScoreRequest(task=make_task("b"), answers=("x" * 5 * 2**20, "y"))
    await score_groups(rewarder, [heavy, heavy, request("a")], give_up_after_s=0)
    assert rewarder.batches == [["b"], ["b", "a"]]


async def test_answers_to_one_task_are_a_group_and_keep_their_order() -> None:
    rewarder = Planned(
        a=[ScoreResponse(rewards=(scored(0.1), scored(0.2)), scorer="s@0")],
        b=[GroupFailed(failure=FAILURE)],
    )
    pairs = [(make_task("a"), "x"), (make_task("b"), "y"), (make_task("a"), "z")]
    first, second, third = await score_answers(rewarder, pairs, give_up_after_s=0)
    assert rewarder.batches == [["a", "b"]]
    assert isinstance(first, Scored)
    assert isinstance(third, Scored)
    assert (first.value, third.value) == (0.1, 0.2)
    assert second == Unscored(failure=FAILURE)


async def test_a_task_that_can_never_be_scored_is_an_error() -> None:
    rewarder = Planned(a=[GroupFailed(failure=FATAL)])
    with pytest.raises(InvalidInput, match="bad"):
        await score_answers(rewarder, [(make_task("a"), "x")], give_up_after_s=0)
