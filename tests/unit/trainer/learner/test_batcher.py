"""The feed on scripted workers: staleness, replacements, failures, resuming."""

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

import pytest

from assay_shared.errors import BudgetExceeded, Conflict, DatasetError
from assay_shared.types import (
    Failure,
    FailureClass,
    FinishReason,
    GroupRequest,
    PolicyVersion,
    RolloutSpan,
    ScoredGroup,
    Unscored,
)
from assay_trainer.curriculum.order import TaskOrder
from assay_trainer.curriculum.state import BatcherState
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.batcher import GroupBatcher
from assay_trainer.rollouts.set_aside import SetAside
from assay_trainer.weights.versions import VersionLog
from tests.support.fakes import make_rewards, make_rollout, make_scored_group, make_task

TASKS = [make_task(f"t{i}") for i in range(5)]
Play = Callable[[GroupRequest, int], ScoredGroup]


class ScriptedRollouts:
    """Plays each request by a function when it is collected, in the order they were sent."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.sent: list[GroupRequest] = []
        self.waiting: list[GroupRequest] = []
        self.served = 0

    @property
    def num_in_flight(self) -> int:
        return len(self.waiting)

    def send(self, request: GroupRequest) -> None:
        self.sent.append(request)
        self.waiting.append(request)

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        return [self.play(self.waiting.pop(0), self.served)] if self.waiting else []


def policy(version: int) -> PolicyVersion:
    return PolicyVersion(version=version, digest=f"d{version}")


def mixed(request: GroupRequest, served: int) -> ScoredGroup:
    """Each answer was begun under the first version."""
    scored = with_signal(request, served)
    if served < 2:
        return scored
    spans = (
        RolloutSpan(policy=policy(1), num_tokens=1),
        RolloutSpan(policy=policy(served), num_tokens=1),
    )
    rollouts = tuple(one.model_copy(update={"spans": spans}) for one in scored.group.rollouts)
    group = scored.group.model_copy(update={"rollouts": rollouts})
    return scored.model_copy(update={"group": group})


def test_a_group_is_as_old_as_its_oldest_token() -> None:
    feed, rollouts = make_feed(mixed)
    for version in (1, 2):
        serve(feed, rollouts, version)
    assert set(feed.next_batch().staleness) == {1}
    serve(feed, rollouts, 3)
    assert set(feed.next_batch().staleness) == {2}, "its newest token may be learnt"
    serve(feed, rollouts, 10)
    with pytest.raises(BudgetExceeded, match=r"dropped 12 groups \(12 too_old\).*hard_staleness"):
        feed.next_batch()


def test_a_group_without_a_token_to_learn_is_too_old() -> None:
    feed, rollouts = make_feed(lambda request, _: with_signal(request, 1))
    for version in (1, 3):
        serve(feed, rollouts, version)
    with pytest.raises(BudgetExceeded, match=r"dropped 12 groups \(12 too_old\)"):
        feed.next_batch()


def test_of_what_is_ready_the_oldest_request_comes_first() -> None:
    feed, rollouts = make_feed(with_signal, groups_per_step=2, max_staleness=3)
    rollouts.collect = lambda wait_s: [  # type: ignore[method-assign]  # all, the newest first
        rollouts.play(rollouts.waiting.pop(), rollouts.served) for _ in rollouts.waiting[:]
    ]
    taken = []
    for version in range(1, 7):
        serve(feed, rollouts, version)
        taken += [one.group.key for one in feed.next_batch().groups]
    assert taken == [request.key for request in rollouts.sent][: len(taken)]


@pytest.mark.parametrize("arrival", [0, -1])
def test_a_batch_has_the_order_of_its_draws(arrival: int) -> None:
    feed, rollouts = make_feed(with_signal, groups_per_step=4, max_staleness=0)
    rollouts.collect = lambda wait_s: [  # type: ignore[method-assign]  # one by one
        rollouts.play(rollouts.waiting.pop(arrival), rollouts.served)
    ]
    serve(feed, rollouts, 1)
    keys = [one.group.key for one in feed.next_batch().groups]
    assert keys == [request.key for request in rollouts.sent]


class StreamingRollouts(ScriptedRollouts):
    """Inference with `sync: continue`: each tick samples a token of all answers in flight."""

    def __init__(self) -> None:
        super().__init__(with_signal)
        self._random = random.Random(0)
        self.spans: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}
        self.drawn: list[int] = []

    def send(self, request: GroupRequest) -> None:
        super().send(request)
        self.spans[request.key] = []
        self.lengths[request.key] = min(40, round(self._random.lognormvariate(1.5, 1.0)) + 1)

    def tick(self) -> None:
        for request in self.waiting:
            if len(self.spans[request.key]) < self.lengths[request.key]:
                self.spans[request.key].append(self.served)

    def collect(self, wait_s: float) -> list[ScoredGroup]:
        if wait_s:
            self.tick()
        done = [r for r in self.waiting if len(self.spans[r.key]) == self.lengths[r.key]]
        self.waiting = [request for request in self.waiting if request not in done]
        self.drawn += [self.lengths[request.key] for request in done]
        return [self._whole(request) for request in done]

    def _whole(self, request: GroupRequest) -> ScoredGroup:
        versions = self.spans[request.key]
        rollout = make_rollout().model_copy(
            update={
                "token_ids": (5,) * len(versions),
                "logprobs": (-0.5,) * len(versions),
                "spans": tuple(RolloutSpan(policy=policy(v), num_tokens=1) for v in versions),
            }
        )
        scored = with_signal(request, 1)
        group = scored.group.model_copy(update={"rollouts": (rollout,) * 2})
        return scored.model_copy(update={"group": group})


@pytest.mark.rule("what is trained on is as long as what was sampled")
@pytest.mark.parametrize(("hard_staleness", "is_biased"), [(8, False), (2, True)])
def test_long_answers_are_trained_on_as_often_as_they_are_sampled(
    hard_staleness: int, *, is_biased: bool
) -> None:
    """Answers go through many versions; a bound at `max_staleness` would drop the longest ones."""
    rollouts = StreamingRollouts()
    feed, _ = make_feed(
        with_signal,
        rollouts=rollouts,
        groups_per_step=8,
        max_staleness=2,
        hard_staleness=hard_staleness,
        max_groups_per_step=48,
        group_attempts=1,
    )
    kept, dropped = list[int](), list[int]()
    for version in range(1, 120):
        serve(feed, rollouts, version)
        portion = feed.next_batch()
        assert len(portion.groups) == 8
        kept += [one.num_sampled for g in portion.groups for one in g.group.rollouts]
        dropped += portion.dropped_lengths
        assert (portion.dropped_length_mean is None) is (not portion.dropped_lengths)
        for _ in range(4):  # the trainer updates
            rollouts.tick()
    bias = fmean(kept) / fmean(rollouts.drawn) - 1
    assert (bias < -0.05) is is_biased, bias
    assert abs(bias) < 0.05 or is_biased
    assert bool(dropped) is is_biased
    if dropped:
        assert fmean(dropped) > 2 * fmean(kept), "what a hard bound would cost is reported"


def with_signal(request: GroupRequest, served: int) -> ScoredGroup:
    group = make_scored_group(request.key, 1.0, 0.0, policy=policy(served), task=request.task)
    return group


def make_feed(
    play: Play,
    state: BatcherState | None = None,
    published: Iterable[PolicyVersion] = (),
    rollouts: ScriptedRollouts | None = None,
    **changes: object,
) -> tuple[GroupBatcher, ScriptedRollouts]:
    values = {
        "steps": 10,
        "groups_per_step": 4,
        "group_size": 2,
        "max_staleness": 1,
        "max_groups_per_step": 12,
        "max_failed_groups": 6,
    } | changes
    rollouts = rollouts or ScriptedRollouts(play)
    feed = GroupBatcher(
        rollouts,  # type: ignore[arg-type]  # a scripted stand-in of the same shape
        TaskOrder(TASKS, seed=0),
        GRPOConfig.model_validate(values),
        run="run",
        seed=3,
        state=state or BatcherState(),
        set_aside=SetAside("training", len(TASKS), 0.4, lambda _: None),
        published=published,
    )
    return feed, rollouts


def serve(feed: GroupBatcher, rollouts: ScriptedRollouts, version: int) -> None:
    rollouts.served = version
    feed.serve(policy(version))


def test_every_epoch_has_every_task_once_in_an_order_of_its_own() -> None:
    order = TaskOrder(TASKS, seed=0)
    epochs = [[order.task(5 * e + i).id for i in range(5)] for e in range(4)]
    assert all(sorted(epoch) == [t.id for t in TASKS] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert [TaskOrder(TASKS, seed=0).task(i).id for i in range(5)] == epochs[0]


@pytest.mark.parametrize("max_staleness", [0, 1, 3])
def test_no_group_is_older_than_allowed_and_none_is_wasted(max_staleness: int) -> None:
    feed, rollouts = make_feed(with_signal, max_staleness=max_staleness)
    ages = []
    for version in range(1, 9):
        serve(feed, rollouts, version)
        assert rollouts.num_in_flight <= 4 * (max_staleness + 1)
        portion = feed.next_batch()
        assert len(portion.groups) == 4
        assert not portion.refused
        ages += portion.staleness
    assert max(ages) <= max_staleness


def sampled_when_sent(request: GroupRequest, rewards: Sequence[float]) -> ScoredGroup:
    version = int(request.key.split("/v")[1].split("/")[0])
    return make_scored_group(request.key, *rewards, policy=policy(version), task=request.task)


def test_where_few_groups_have_signal_more_are_in_flight() -> None:
    """One of five groups has signal, then all of them, at once."""
    has_signal = random.Random(0)
    share = 0.2

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        teaches = has_signal.random() < share
        return sampled_when_sent(request, (1.0, 0.0) if teaches else (0.0, 0.0))

    feed, rollouts = make_feed(play, groups_per_step=8, max_groups_per_step=96)
    in_flight, num_played, num_too_old = [], 0, 0
    for version in range(1, 41):
        serve(feed, rollouts, version)
        in_flight.append(rollouts.num_in_flight)
        portion = feed.next_batch()
        assert len(portion.groups) == 8
        assert max(portion.staleness) <= 1
        num_played += portion.num_played
        num_too_old += portion.refused.total()
    assert in_flight[0] == 16
    assert 40 < fmean(in_flight[10:]) <= 70, "5 / 3 steps of 8 groups with signal need 67"
    assert num_too_old < 0.05 * num_played
    share = 1.0
    for version in range(41, 61):
        serve(feed, rollouts, version)
        assert len(feed.next_batch().groups) == 8
    assert rollouts.num_in_flight <= 16


def test_each_group_asked_for_is_back_or_in_flight() -> None:
    """Some are too old and asked for again, some have no signal, some fail."""
    kinds = random.Random(1)

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        kind = kinds.random()
        if kind < 0.2:
            return failed(request, retryable=True)
        found = policy(1 if kind < 0.4 else served)
        values = (1.0, 1.0) if kind < 0.6 else (1.0, 0.0)
        return make_scored_group(request.key, *values, policy=found, task=request.task)

    feed, rollouts = make_feed(play, max_failed_groups=100)
    feed.serve(policy(1))
    num_back = 0
    for version in range(5, 25):
        serve(feed, rollouts, version)
        portion = feed.next_batch()
        num_back += portion.num_played
        assert portion.num_asked == num_back + portion.num_in_flight
        assert portion.num_in_flight > 0
    assert portion.num_asked > num_back


def test_without_staleness_no_group_is_asked_for_that_may_not_be_needed() -> None:
    feed, rollouts = make_feed(
        lambda request, _: sampled_when_sent(request, (0.0, float("/1" in request.key))),
        max_staleness=0,
        max_groups_per_step=100,
    )
    for version in range(1, 9):
        serve(feed, rollouts, version)
        assert not feed.next_batch().refused
        assert rollouts.num_in_flight == 0


def test_groups_are_made_ahead_while_the_trainer_updates() -> None:
    feed, rollouts = make_feed(with_signal)
    serve(feed, rollouts, 1)
    feed.next_batch()
    assert rollouts.num_in_flight == 4, "the next step's groups are on their way"


def test_a_group_that_is_too_old_is_dropped_and_replaced() -> None:
    old = iter([True, True, False, False, False, False, False])

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        return with_signal(request, 1 if next(old, False) else served)

    feed, rollouts = make_feed(play, max_staleness=0)
    feed.serve(policy(1))
    serve(feed, rollouts, 5)
    portion = feed.next_batch()
    assert (portion.refused, len(portion.groups)) == ({"too_old": 2}, 4)


def test_weights_that_nobody_announced_are_not_trained_on() -> None:
    forged = iter([True, False, False, False, False])

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        version = (
            PolicyVersion(version=served, digest="other") if next(forged, False) else policy(served)
        )
        return make_scored_group(request.key, 1.0, 0.0, policy=version)

    feed, rollouts = make_feed(play, max_staleness=0)
    serve(feed, rollouts, 1)
    portion = feed.next_batch()
    assert (portion.refused, len(portion.groups)) == ({"unknown_version": 1}, 4)
    assert portion.outcomes.total() == 8, "what unknown weights sampled is in no statistic"
    again = [request.key for request in rollouts.sent if request.key.startswith("run/0/")]
    assert again[1] == again[0] + "/1", "asked again, and not by the key that has an answer"


def test_a_draw_that_is_refused_again_and_again_is_given_up() -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        known = not request.key.startswith("run/0/")
        version = policy(served) if known else PolicyVersion(version=served, digest="other")
        return make_scored_group(request.key, 1.0, 0.0, policy=version)

    feed, rollouts = make_feed(play, max_staleness=0, group_attempts=2, groups_per_step=5)
    serve(feed, rollouts, 1)
    portion = feed.next_batch()
    assert (portion.refused, len(portion.groups)) == ({"unknown_version": 2}, 5)
    assert sum(request.key.startswith("run/0/") for request in rollouts.sent) == 2


def test_a_run_of_mostly_unknown_weights_stops_and_says_whose() -> None:
    foreign = PolicyVersion(version=9, digest="f" * 64)

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        return make_scored_group(request.key, 1.0, 0.0, policy=foreign)

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    with pytest.raises(Conflict, match=r"4 of the last 4 groups .* version 9 of digest ffffffff"):
        feed.next_batch()


def test_one_turn_of_an_episode_under_unknown_weights_is_enough() -> None:
    foreign = PolicyVersion(version=1, digest="other")
    spans = (
        RolloutSpan(policy=policy(1), num_tokens=1),
        RolloutSpan(policy=foreign, num_tokens=1),
    )
    first = iter([True])

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        scored = with_signal(request, served)
        if not next(first, False):
            return scored
        one, other = scored.group.rollouts
        changed = (one.model_copy(update={"spans": spans}), other)
        group = scored.group.model_copy(update={"rollouts": changed})
        return scored.model_copy(update={"group": group})

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    assert feed.next_batch().refused == {"unknown_version": 1}


def test_what_a_run_published_before_it_was_resumed_is_known(tmp_path: Path) -> None:
    file = tmp_path / "published.jsonl"
    VersionLog(file).add(policy(6))
    with file.open("a") as unfinished:
        unfinished.write('{"version": 7, "dig')
    published = VersionLog(file)
    assert published.newest == 6
    feed, rollouts = make_feed(lambda r, _: with_signal(r, 6), published=published)
    serve(feed, rollouts, 7)
    assert feed.next_batch().staleness == [1] * 4
    feed, rollouts = make_feed(lambda r, _: with_signal(r, 6))
    serve(feed, rollouts, 7)
    with pytest.raises(Conflict):
        feed.next_batch()


def test_a_ready_group_of_the_newest_weights_is_shown_and_stays() -> None:
    feed, rollouts = make_feed(with_signal)
    serve(feed, rollouts, 1)
    feed.next_batch()
    shown = feed.newest_ready()
    assert shown is not None
    serve(feed, rollouts, 2)
    portion = feed.next_batch()
    assert portion.groups[0] is shown


@pytest.mark.rule("rewards carry no noise, and a group without differences teaches nothing")
def test_groups_without_signal_are_replaced_up_to_the_budget() -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        values = (
            (1.0, 0.0)
            if len(request.task.id) and int(request.key.split("/")[1]) % 6 == 0
            else (1.0, 1.0)
        )
        return make_scored_group(request.key, *values, policy=policy(served))

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    portion = feed.next_batch()
    assert portion.num_played == 12
    assert (len(portion.groups), portion.num_without_signal) == (2, 10)
    assert portion.reward_mean == pytest.approx(22 / 24), (
        "all scored samples count, trained on or not"
    )


def test_each_group_that_is_not_trained_on_is_handed_over_with_its_reason() -> None:
    kinds = iter(["flat", "old", "failed", "unscored", "signal", "flat"])

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        kind = next(kinds, "signal")
        if kind == "failed":
            return failed(request, retryable=True)
        values = {"flat": (1.0, 1.0), "unscored": (None, None)}.get(kind, (1.0, 0.0))
        found = policy(1 if kind == "old" else served)
        return make_scored_group(request.key, *values, policy=found, task=request.task)

    feed, rollouts = make_feed(play, max_staleness=0)
    told: list[str] = []
    feed.discard_to(lambda reason, scored: told.append(reason))
    feed.serve(policy(1))
    serve(feed, rollouts, 5)
    portion = feed.next_batch()
    assert told == ["no_signal", "too_old", "failed", "failed", "no_signal"]
    assert (portion.num_played, portion.num_generated) == (9, 16)


def one_in_three(request: GroupRequest, served: int) -> ScoredGroup:
    """One group of three has signal."""
    values = (1.0, 0.0) if int(request.key.split("/")[1]) % 3 == 0 else (1.0, 1.0)
    return make_scored_group(request.key, *values, policy=policy(served), task=request.task)


@pytest.mark.parametrize("max_staleness", [0, 1])
def test_without_replacement_a_batch_is_what_was_drawn(max_staleness: int) -> None:
    feed, rollouts = make_feed(one_in_three, replace_flat=False, max_staleness=max_staleness)
    for version in range(1, 7):
        serve(feed, rollouts, version)
        portion = feed.next_batch()
        draws = [int(one.group.key.split("/")[1]) for one in portion.groups]
        assert draws == list(range(4 * version - 4, 4 * version))
        assert portion.num_without_signal == sum(draw % 3 != 0 for draw in draws)
        assert (portion.num_left_out, portion.num_played) == (0, 4)
    ahead = 4 * max_staleness
    assert len(rollouts.sent) == 24 + ahead, "no group is asked for that may not be needed"


def test_groups_in_the_places_of_others_are_counted() -> None:
    feed, rollouts = make_feed(one_in_three, groups_per_step=3)
    serve(feed, rollouts, 1)
    facts = feed.next_batch().facts(groups_per_step=3)
    assert (facts["num_groups"], facts["num_without_signal"], facts["num_replaced"]) == (3, 4, 4)
    feed, rollouts = make_feed(one_in_three, groups_per_step=3, max_groups_per_step=5)
    serve(feed, rollouts, 1)
    facts = feed.next_batch().facts(groups_per_step=3)
    assert (facts["num_groups"], facts["num_without_signal"], facts["num_replaced"]) == (2, 3, 2)


def test_a_group_of_failures_alone_is_replaced_and_never_flat() -> None:
    number = iter(range(1000))

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        values = (None, None) if next(number) % 2 else (1.0, 1.0)
        return make_scored_group(request.key, *values, policy=policy(served))

    feed, rollouts = make_feed(play, replace_flat=False)
    serve(feed, rollouts, 1)
    portion = feed.next_batch()
    assert (len(portion.groups), portion.num_without_signal, portion.num_played) == (4, 4, 7)


def test_a_batch_has_the_variance_within_groups_and_not_between_them() -> None:
    number = iter(range(1000))

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        values = [(1.0, 0.0), (1.0, None), (0.0, 0.0)][next(number) % 3]
        return make_scored_group(request.key, *values, policy=policy(served))

    feed, rollouts = make_feed(play, replace_flat=False, groups_per_step=6)
    serve(feed, rollouts, 1)
    assert feed.next_batch().facts(6)["reward_variance"] == pytest.approx(0.25), (
        "0.5 and 0 in turn; one sample has no variance"
    )


@pytest.mark.parametrize("replace_flat", [True, False])
def test_groups_of_cut_off_answers_alone_teach_nothing_with_the_filter(
    *, replace_flat: bool
) -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        scored = with_signal(request, served)
        is_short = int(request.key.split("/")[1]) % 2 == 0
        ends = ["stop" if is_short else "length", "length"]
        rollouts = tuple(
            one.model_copy(update={"finish_reason": FinishReason(end)})
            for one, end in zip(scored.group.rollouts, ends, strict=True)
        )
        group = scored.group.model_copy(update={"rollouts": rollouts})
        return scored.model_copy(update={"group": group})

    feed, rollouts = make_feed(play, overlong={"kind": "filter"}, replace_flat=replace_flat)
    serve(feed, rollouts, 1)
    portion = feed.next_batch()
    assert [int(one.group.key.split("/")[1]) for one in portion.groups] == [0, 2, 4, 6]
    assert (portion.num_left_out, portion.num_overlong) == (3, 4)


def test_a_batch_counts_the_domains_that_were_played_and_those_trained_on() -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        is_code = int(request.key.split("/")[1]) % 3 == 0
        tags = {"domain": "code"} if is_code else {}
        values = (1.0, 0.0) if is_code else (1.0, 1.0)
        scored = make_scored_group(request.key, *values, policy=policy(served))
        task = scored.group.task.model_copy(update={"tags": tags, "dataset": "sums"})
        group = scored.group.model_copy(update={"task": task})
        return scored.model_copy(update={"group": group})

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    portion = feed.next_batch()
    assert portion.trained_by_domain == {"code": len(portion.groups)}
    assert portion.played_by_domain.total() == portion.num_played
    assert portion.played_by_domain["sums"] == portion.num_without_signal > 0


def test_failures_enter_no_statistic_and_are_counted() -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        return make_scored_group(request.key, 1.0, None, 0.0, None, policy=policy(served))

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    portion = feed.next_batch()
    assert portion.reward_mean == 0.5
    assert portion.pass_rate == 0.5
    assert portion.failures == {"sandbox": 8}


def failed(request: GroupRequest, *, retryable: bool = True) -> ScoredGroup:
    failure = Failure(
        failure_class=FailureClass.NETWORK, service="reward", message="refused", retryable=retryable
    )
    return make_scored_group(request.key).model_copy(update={"failure": failure})


def test_a_service_that_stays_down_stops_the_run_with_its_reason() -> None:
    feed, rollouts = make_feed(lambda request, _: failed(request))
    serve(feed, rollouts, 1)
    with pytest.raises(BudgetExceeded, match="6 groups in a row .* failed in reward: refused"):
        feed.next_batch()


def test_a_group_in_which_every_sample_failed_counts_as_failed_too() -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        return make_scored_group(request.key, None, None, policy=policy(served))

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    with pytest.raises(BudgetExceeded, match="failed in sandbox: planted"):
        feed.next_batch()


def test_an_outage_leaves_the_batch_whole() -> None:
    """Six of ten groups fail and half of the others are flat: the step has all its groups."""
    number = iter(range(1000))

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        at = next(number) % 10
        if at < 6:
            return failed(request)
        return make_scored_group(request.key, 1.0, float(at % 2), policy=policy(served))

    feed, rollouts = make_feed(play, max_failed_groups=7)
    serve(feed, rollouts, 1)
    for _ in range(5):
        portion = feed.next_batch()
        assert len(portion.groups) == 4
        assert portion.num_played > 12


def test_an_outage_that_ends_is_survived() -> None:
    number = iter(range(100))

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        return failed(request) if next(number) % 6 < 5 else with_signal(request, served)

    feed, rollouts = make_feed(play, max_groups_per_step=24)
    serve(feed, rollouts, 1)
    assert len(feed.next_batch().groups) == 4


def test_a_task_that_can_never_be_played_costs_itself_alone() -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        bad = request.task.id in ("t1", "t3")
        return failed(request, retryable=False) if bad else with_signal(request, served)

    feed, rollouts = make_feed(play, max_staleness=0)
    serve(feed, rollouts, 1)
    portions = [feed.next_batch() for _ in range(6)]
    assert [len(portion.groups) for portion in portions] == [4] * 6
    assert 2 <= sum(portion.num_set_aside for portion in portions) <= 4, "not once an epoch"
    sent = [request.task.id for request in rollouts.sent]
    assert sent.count("t1") + sent.count("t3") <= 4 < sent.count("t0")


def test_too_many_tasks_that_can_never_be_played_end_the_run_with_their_reason() -> None:
    feed, rollouts = make_feed(lambda request, _: failed(request, retryable=False))
    serve(feed, rollouts, 1)
    with pytest.raises(
        DatasetError, match="3 of 5 training tasks .* at most 2 may be set aside; .*: refused"
    ):
        feed.next_batch()


def test_a_group_whose_samples_all_fail_for_good_is_its_tasks_fault() -> None:
    """An unknown rubric, say, is told of each sample."""
    lasting = Failure(
        failure_class=FailureClass.CALLER, service="reward", message="no rubric", retryable=False
    )

    def play(request: GroupRequest, served: int) -> ScoredGroup:
        scored = with_signal(request, served)
        if request.task.id != "t2":
            return scored
        return scored.model_copy(update={"rewards": (Unscored(failure=lasting),) * 2})

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    portions = [feed.next_batch() for _ in range(3)]
    assert sum(portion.num_set_aside for portion in portions) >= 1
    assert all(len(portion.groups) == 4 for portion in portions)


def test_a_spent_budget_is_no_tasks_fault() -> None:
    spent = Failure(
        failure_class=FailureClass.BUDGET, service="judge", message="spent", retryable=False
    )
    feed, rollouts = make_feed(
        lambda request, _: failed(request).model_copy(update={"failure": spent})
    )
    serve(feed, rollouts, 1)
    with pytest.raises(BudgetExceeded, match="judge: spent"):
        feed.next_batch()


def test_a_resumed_feed_plays_what_was_under_way_and_then_goes_on() -> None:
    feed, rollouts = make_feed(with_signal)
    serve(feed, rollouts, 1)
    feed.next_batch()
    state = feed.state()
    assert state == BatcherState(next_draw=8, unfinished=(4, 5, 6, 7))
    again, resumed = make_feed(with_signal, state=state)
    serve(again, resumed, 7)
    draws = [int(request.key.split("/")[1]) for request in resumed.sent]
    assert draws == [4, 5, 6, 7, 8, 9, 10, 11]


def test_what_a_broken_off_portion_holds_is_played_again() -> None:
    def play(request: GroupRequest, served: int) -> ScoredGroup:
        if len(rollouts.waiting) == 5:
            raise BudgetExceeded("broken off")
        return with_signal(request, served)

    feed, rollouts = make_feed(play)
    serve(feed, rollouts, 1)
    with pytest.raises(BudgetExceeded, match="broken off"):
        feed.next_batch()
    assert sorted(feed.state().unfinished) == list(range(feed.state().next_draw))


def test_keys_and_seeds_are_of_run_draw_task_version_and_rubric() -> None:
    feed, rollouts = make_feed(with_signal, stop=["\n\n"])
    serve(feed, rollouts, 2)
    request = rollouts.sent[1]
    assert request.sampling.stop == ("\n\n",)
    assert request.key == f"run/1/{request.task.id}/v2/code.dense"
    assert len({r.key for r in rollouts.sent}) == len({r.sampling.seed for r in rollouts.sent}) == 8


def test_rewards_helper_marks_failures() -> None:
    scored, unscored = make_rewards(1.0, None)
    assert isinstance(unscored, Unscored)
    assert not isinstance(scored, Unscored)
