"""Batches scored groups for training: recent enough, and with differing rewards.

With `replace_flat: false`, groups of equal rewards stay in the batch.

Consumes tasks; waits for workers; unblocked by the groups they store. At most
(max_staleness + 1) steps' worth of groups are in flight or ready, so waiting alone makes no group
older than `max_staleness` versions. Where many groups have no signal, more are in flight: as many
as give that number with signal (`SignalShare`). With `sync: continue`, long answers go through more
versions. Their older tokens are masked (`packs`); a group is dropped only if none of its tokens may
be learnt or one is beyond `hard_staleness`. Otherwise the longest answers would be dropped most.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable

from assay_shared.errors import BudgetExceeded, Conflict, DatasetError
from assay_shared.types import (
    GroupRequest,
    PolicyVersion,
    SamplingParams,
    Scored,
    ScoredGroup,
)
from assay_trainer.curriculum.order import DrawOrder
from assay_trainer.curriculum.staged_order import FinishedStep, PlayedTask
from assay_trainer.curriculum.state import Advance, BatcherState
from assay_trainer.grpo_config import GRPOConfig
from assay_trainer.learner.advantage import group_rewards
from assay_trainer.learner.batching.group_batch import DiscardReason, DropReason, GroupBatch
from assay_trainer.learner.batching.signal_share import SignalShare
from assay_trainer.learner.normalisation.group_rewards import GroupRewards
from assay_trainer.learner.normalisation.overlong import Overlong
from assay_trainer.rollouts.dispatcher import RolloutDispatcher
from assay_trainer.rollouts.set_aside import SetAside, own_failure
from assay_trainer.weights.versions import sampled_by

_WAIT_S = 0.5
#: By luck a step needs fewer groups than expected, and the rest would be too old. So this share of
#: the groups of later steps is not asked for ahead of time.
_SPARE = 1 / 3
#: Draws of one step are far apart from those of the next in seed space.
_SEED_STRIDE = 1_000_003
#: After this number of draws of tasks that are set aside, no task of the stage is left.
_MOST_SKIPPED = 100_000


class GroupBatcher:
    """Keeps groups in flight and returns batches. `policy` is the version served by inference."""

    def __init__(
        self,
        rollouts: RolloutDispatcher,
        order: DrawOrder,
        config: GRPOConfig,
        *,
        run: str,
        seed: int,
        state: BatcherState,
        set_aside: SetAside,
        published: Iterable[PolicyVersion] = (),
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Store the parts of a run.

        Args:
            set_aside: tasks to leave out; unplayable tasks are added.
            published: versions announced by this run earlier, in this process or another.
            while_waiting: called while waiting; it may raise to end the wait.
        """
        self._set_aside = set_aside
        self._rollouts = rollouts
        self._order = order
        self._config = config
        self._overlong = Overlong.of(config)
        self._run = run
        self._seed = seed
        self._while_waiting = while_waiting
        self._next_draw = state.next_draw
        self._again = deque(state.unfinished)
        self._draws: dict[str, int] = {}  # by key, the oldest request first
        self._open: list[int] = []  # admitted to a portion that is not complete
        self._num_asked = 0
        self._ready: dict[str, ScoredGroup] = {}
        self._teaching: set[str] = set()  # keys of ready groups with signal
        self._signal_share = SignalShare()
        self._known = set(published)
        self.policy: PolicyVersion | None = None
        self._failed_in_a_row = 0
        self._num_refused: Counter[int] = Counter()  # by draw
        self._was_unknown: deque[bool] = deque(maxlen=config.max_failed_groups)
        self._played: list[PlayedTask] = []  # since the last finished step
        self._discard: Callable[[DiscardReason, ScoredGroup], None] = lambda reason, scored: None

    def discard_to(self, keep: Callable[[DiscardReason, ScoredGroup], None]) -> None:
        """Hand each group that is not trained on to `keep`, with the reason."""
        self._discard = keep

    def serve(self, policy: PolicyVersion) -> None:
        """Request groups of this version from now on."""
        self.policy = policy
        self._known.add(policy)
        self._fill(0)

    @property
    def _version(self) -> int:
        if self.policy is None:
            raise RuntimeError("no version is served yet")
        return self.policy.version

    def state(self) -> BatcherState:
        """Return the state; every group not yet in a batch counts as unfinished."""
        unfinished = (*self._open, *self._draws.values(), *self._again)
        return BatcherState(self._next_draw, unfinished, self._order.state(unfinished))

    @property
    def stage(self) -> str | None:
        """Return the curriculum's stage that is learnt."""
        return self._order.stage

    @property
    def is_over(self) -> bool:
        """Return True if the order has nothing left to learn."""
        no_more = not self._draws and not self._again and not self._order.has(self._next_draw)
        return self._order.is_over or no_more

    def skip_stage(self, reason: str) -> Advance | None:
        """End the curriculum's stage before its time; return None if no other follows."""
        return self._order.skip_stage(self._next_draw, reason)

    def finish_step(self, step: int) -> FinishedStep:
        """Return what a finished step leaves behind, once."""
        played, self._played = self._played, []
        return FinishedStep(step, played, self._next_draw, self.state().unfinished)

    def next_batch(self) -> GroupBatch:
        """Return the groups of a step by draw; fewer after `max_groups_per_step` with rewards.

        Groups that failed, were dropped or set aside do not count: others take their places.

        Raises:
            BudgetExceeded: too many groups in a row came back without a score, or too many of this
                step were dropped.
            Conflict: most groups were sampled by weights never published by this run.
            DatasetError: too many tasks cannot be sampled or scored for their own reasons.
        """
        portion = GroupBatch(self._version)
        config = self._config
        most_drops = config.max_groups_per_step + self._num_asked_above()
        while len(portion.groups) < config.groups_per_step:
            if portion.num_considered >= config.max_groups_per_step:
                break
            self._fill(len(portion.groups))
            if not self._draws:
                break  # the order has ended
            if not self._ready:
                self._collect(_WAIT_S)
                self._while_waiting()
            if self._ready:
                oldest = next(key for key in self._draws if key in self._ready)
                self._teaching.discard(oldest)
                self._admit(self._ready.pop(oldest), portion)
            self._watch_drops(portion, most_drops)
        self._open.clear()
        portion.num_asked, portion.num_in_flight = self._num_asked, len(self._draws)
        return portion

    def newest_ready(self) -> ScoredGroup | None:
        """Return a waiting group sampled only by the newest weights; it keeps waiting."""
        self._collect(0.0)
        waiting = self._ready.values()
        return next((one for one in waiting if sampled_by(one) == {self.policy}), None)

    def _collect(self, wait_s: float) -> None:
        for scored in self._rollouts.collect(wait_s):
            self._ready[scored.group.key] = scored
            if not any(isinstance(reward, Scored) for reward in scored.rewards):
                continue
            has_signal = self._rewards(scored).has_signal
            self._signal_share.count(has_signal)
            if has_signal:
                self._teaching.add(scored.group.key)

    def _fill(self, num_taken: int) -> None:
        """Send until in flight, ready and taken are as many as may be sent under this version.

        Without staleness, what is in flight when a batch is complete would be too old for the next:
        then no group is asked for that may turn out not to be needed.
        """
        config, rollouts = self._config, self._rollouts
        wanted = config.groups_per_step * (config.max_staleness + 1) - num_taken
        while rollouts.num_in_flight + len(self._ready) < wanted and self._send():
            pass
        if config.max_staleness == 0 or not config.replace_flat:
            return
        most = config.max_groups_per_step * (config.max_staleness + 1)
        share = self._signal_share.upper
        with_signal = wanted - _SPARE * config.groups_per_step * config.max_staleness
        while (
            len(self._teaching) + share * rollouts.num_in_flight < with_signal
            and rollouts.num_in_flight + len(self._ready) < most
            and self._send()
        ):
            pass

    def _num_asked_above(self) -> int:
        """Return how many more groups are under way than would be if all had signal."""
        num_asked = self._rollouts.num_in_flight + len(self._ready)
        return max(0, num_asked - self._config.groups_per_step * (self._config.max_staleness + 1))

    def _send(self) -> bool:
        """Request the group of the next draw; return False if the order has ended."""
        draw = self._draw()
        if draw is None:
            return False
        task = self._order.task(draw)
        key = f"{self._run}/{draw}/{task.id}/v{self._version}/{task.rubric}"
        if self._num_refused[draw]:  # what is stored under the first key would come again
            key += f"/{self._num_refused[draw]}"
        self._draws[key] = draw
        self._num_asked += 1
        sampling = SamplingParams(
            n=self._config.group_size,
            max_tokens=self._config.max_tokens,
            temperature=self._config.temperature,
            stop=self._config.stop,
            seed=self._seed * _SEED_STRIDE + draw,
        )
        self._rollouts.send(GroupRequest(key=key, run=self._run, task=task, sampling=sampling))
        return True

    def _draw(self) -> int | None:
        """Return the next draw with a usable task; None if the order has ended.

        Raises:
            DatasetError: all tasks of the curriculum's stage are set aside.
        """
        for _ in range(_MOST_SKIPPED):
            if self._again:
                draw = self._again.popleft()
            elif not self._order.has(self._next_draw):
                return None
            else:
                draw, self._next_draw = self._next_draw, self._next_draw + 1
            if self._order.task(draw) not in self._set_aside:
                return draw
        raise DatasetError(f"all tasks of the stage {self.stage} are set aside", field="curriculum")

    def _admit(self, scored: ScoredGroup, portion: GroupBatch) -> None:
        """Count a group, and take it into the portion if it can teach something."""
        draw = self._draws.pop(scored.group.key)
        refusal = None if scored.failure is not None else self._refusal(scored)
        portion.count(scored, refusal)
        if refusal is not None:
            self._discard(DiscardReason(refusal), scored)
            self._refuse(draw, scored, refusal)
            return
        self._open.append(draw)
        own = own_failure(scored)
        if own is not None:
            portion.num_set_aside += 1
            self._discard(DiscardReason.SET_ASIDE, scored)
            self._set_aside.add(self._order.task(draw), own.message)
            return
        is_scored = any(isinstance(reward, Scored) for reward in scored.rewards)
        if scored.failure is not None or not is_scored:
            self._discard(DiscardReason.FAILED, scored)
        self._watch_failures(scored)
        if scored.failure is not None:
            return
        self._was_unknown.append(False)
        self._played.append(PlayedTask.of(scored))
        if is_scored:
            self._take(draw, scored, portion)

    def _take(self, draw: int, scored: ScoredGroup, portion: GroupBatch) -> None:
        """Add a scored group to the batch, or leave it out: then another takes its place."""
        rewards = self._rewards(scored)
        if not rewards.has_signal:
            portion.num_without_signal += 1
            if self._config.replace_flat or not rewards.is_learnt:
                portion.num_left_out += 1
                is_learnt = rewards.is_learnt
                reason = DiscardReason.NO_SIGNAL if is_learnt else DiscardReason.NOTHING_TO_LEARN
                self._discard(reason, scored)
                return
        portion.take(draw, scored, self._age(scored))
        if self._overlong is not None:
            pairs = zip(scored.group.rollouts, rewards.rewards_G, strict=True)
            told = [self._overlong.touches(rollout) for rollout, r in pairs if r is not None]
            portion.num_overlong += sum(told)

    def _rewards(self, scored: ScoredGroup) -> GroupRewards:
        return group_rewards(scored, self._config.normalise, self._overlong)

    def _refusal(self, scored: ScoredGroup) -> DropReason | None:
        if not sampled_by(scored) <= self._known:
            return DropReason.UNKNOWN_VERSION
        versions = [policy.version for policy in sampled_by(scored)]
        is_old = self._age(scored) > self._config.hard_staleness
        has_none = max(versions, default=self._version) < self._version - self._config.max_staleness
        return DropReason.TOO_OLD if is_old or has_none else None

    def _age(self, scored: ScoredGroup) -> int:
        """Return the versions between the oldest token and now."""
        versions = [policy.version for policy in sampled_by(scored)]
        return self._version - min(versions, default=self._version)

    def _refuse(self, draw: int, scored: ScoredGroup, refusal: DropReason) -> None:
        """Request the draw again, at most `group_attempts` times, then skip its task.

        Raises:
            Conflict: most of the last groups were sampled by unknown weights.
        """
        self._num_refused[draw] += 1
        if self._num_refused[draw] < self._config.group_attempts:
            self._again.append(draw)
        else:
            self._open.append(draw)
        self._was_unknown.append(refusal is DropReason.UNKNOWN_VERSION)
        num_unknown, window = (
            sum(self._was_unknown),
            min(self._config.max_failed_groups, self._config.max_groups_per_step),
        )
        if 2 * num_unknown > window:
            unknown = next(iter(sampled_by(scored) - self._known), None)
            named = (
                ""
                if unknown is None
                else (f"; the last names version {unknown.version} of digest {unknown.digest[:12]}")
            )
            raise Conflict(
                f"{num_unknown} of the last {len(self._was_unknown)} groups were sampled under "
                f"weights that this run never published{named}",
                hint="another trainer publishes to the same inference, or it was restarted "
                "with other weights: give this run its own inference, and resume it",
            )

    def _watch_drops(self, portion: GroupBatch, most: int) -> None:
        if portion.refused.total() >= most:
            counts = ", ".join(f"{number} {name}" for name, number in portion.refused.items())
            raise BudgetExceeded(
                f"a step dropped {portion.refused.total()} groups ({counts})",
                hint="raise grpo.max_staleness or grpo.hard_staleness, or resume once inference "
                "serves new weights",
            )

    def _watch_failures(self, scored: ScoredGroup) -> None:
        failure = scored.failure
        if any(isinstance(reward, Scored) for reward in scored.rewards):
            self._failed_in_a_row = 0
            return
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= self._config.max_failed_groups:
            last = failure or next(r.failure for r in scored.rewards if not isinstance(r, Scored))
            raise BudgetExceeded(
                f"{self._failed_in_a_row} groups in a row have no score; the last failed in "
                f"{last.service}: {last.message}",
                hint="resume the run once that service is well",
            )
