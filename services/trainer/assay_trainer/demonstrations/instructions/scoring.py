"""Scores of answers by the reward service: each task's answers together, and the best one kept."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assay_shared.errors import AssayError, BudgetExceeded, InvalidInput
from assay_shared.interfaces import RewardService
from assay_shared.runtime.gather import gather
from assay_shared.types import Answer, FailureClass, Scored, ScoreRequest, ScoreResponse, Status
from assay_trainer.demonstrations.instructions.answering import AnswerDraft
from assay_trainer.demonstrations.instructions.asking_model.asker import OnAsked
from assay_trainer.demonstrations.instructions.asking_model.ledger import LedgerEntry, ReplyLedger
from assay_trainer.demonstrations.instructions.given.instructions_config import ScoringConfig
from assay_trainer.demonstrations.instructions.screening.left_out import LeftOutTexts

_ABSTAINED = (FailureClass.JUDGE, FailureClass.BUDGET)
_Scores = tuple[tuple[float, bool] | None, ...]


@dataclass
class AnswerScorer:
    """Scores candidates. A failure is not a score: it is told, and asked for again."""

    config: ScoringConfig | None
    name: str
    rewarder: RewardService
    ledger: ReplyLedger
    left_out: LeftOutTexts
    concurrency: int
    on_asked: OnAsked
    #: Leave out answers that still have no score, in place of an end of the command.
    skip_failed: bool = False
    #: Tasks with at least one scored answer.
    num_scored_tasks: int = 0
    scores: list[float] = field(default_factory=list)
    #: Why the last answer without a score has none.
    _last: str = ""

    async def best(self, candidates: Sequence[AnswerDraft]) -> list[AnswerDraft]:
        """Return the best answer to each task that has one with a sufficient score.

        Of equal scores, the shorter answer is the better one.

        Raises:
            BudgetExceeded: answers could not be scored, although they were tried again; or none has
            a score.
        """
        groups: dict[str, list[AnswerDraft]] = {}
        for one in candidates:
            groups.setdefault(one.item.task.id, []).append(one)
        if self.config is None:
            return [min(group, key=lambda one: len(one.text)) for group in groups.values()]
        scored = await self._all(list(groups.values()))
        found = [self._best(group, one) for group, one in zip(groups.values(), scored, strict=True)]
        if groups and not self.num_scored_tasks:
            raise BudgetExceeded(
                f"no answer has a score: {self._last}",
                hint="is there a judge? The same command asks again",
            )
        return [one for one in found if one is not None]

    async def _all(self, groups: Sequence[list[AnswerDraft]]) -> list[_Scores]:
        found: list[_Scores] = [()] * len(groups)
        lost: list[str] = []
        work = iter(range(len(groups)))
        num_done = 0

        async def work_on() -> None:
            nonlocal num_done
            for at in work:
                found[at] = await self._group(groups[at], lost)
                num_done += 1
                self.on_asked("scores", num_done, len(groups))

        self.on_asked("scores", 0, len(groups))
        await gather(work_on() for _ in range(min(self.concurrency, len(groups)) or 1))
        if lost and not self.skip_failed:
            raise BudgetExceeded(
                f"{len(lost)} answers have no score: {self._last}",
                hint="the same command asks for them again; --skip-failed leaves them out",
            )
        return found

    async def _group(self, group: Sequence[AnswerDraft], lost: list[str]) -> _Scores:
        """Return the scores of a task's answers; failures are counted, or noted as lost."""
        key = f"score/{group[0].item.task.id}"
        request = self._request(group)
        digest = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
        stored = self.ledger.find(key, digest)
        if stored is not None:
            return stored.scores
        try:
            response = await self.rewarder.score(
                request.model_copy(update={"key": f"{self.name}/{digest}"})
            )
        except InvalidInput as error:
            self._last = error.message
            for one in group:
                self.left_out.add("answer", one.key, "cannot_be_scored", error.message, one.text)
            return (None,) * len(group)
        except AssayError as error:
            self._last = f"{error.service or 'reward'}: {error.message}"
            for one in group:
                self._lose(one, lost)
            return (None,) * len(group)
        scores = self._read(group, response, lost)
        if None not in scores:
            self.ledger.add(LedgerEntry(key=key, request=digest, scores=scores))
        return scores

    def _request(self, group: Sequence[AnswerDraft]) -> ScoreRequest:
        item = group[0].item
        rubric = self.config.rubric if self.config and not item.is_given else item.task.rubric
        return ScoreRequest(
            task=item.task,
            answers=tuple(Answer(text=one.text, truncated=False) for one in group),
            rubric=rubric,
            run=self.name,
        )

    def _read(
        self, group: Sequence[AnswerDraft], response: ScoreResponse, lost: list[str]
    ) -> _Scores:
        found: list[tuple[float, bool] | None] = []
        for one, reward in zip(group, response.rewards, strict=True):
            if isinstance(reward, Scored):
                found.append((reward.value, reward.outcome is Status.ACCEPTED))
                continue
            found.append(None)
            failure = reward.failure
            self._last = f"{failure.service}: {failure.message}"
            if failure.failure_class in _ABSTAINED:
                self.left_out.add("answer", one.key, "judge_abstained", failure.message, one.text)
            elif failure.retryable:
                self._lose(one, lost)
            else:
                self.left_out.add("answer", one.key, "cannot_be_scored", failure.message, one.text)
        return tuple(found)

    def _lose(self, one: AnswerDraft, lost: list[str]) -> None:
        lost.append(one.key)
        self.left_out.add("answer", one.key, "score_failed", self._last, one.text)

    def _best(self, group: Sequence[AnswerDraft], scores: _Scores) -> AnswerDraft | None:
        """Return the best answer to a task, or None; count the others with a score."""
        known = [(one, score) for one, score in zip(group, scores, strict=True) if score]
        self.num_scored_tasks += bool(known)
        self.scores += [value for _, (value, _) in known]
        passed = [(one, value) for one, (value, right) in known if self._passes(one, value, right)]
        best = min(passed, key=lambda one: (-one[1], len(one[0].text)), default=None)
        for one, (value, right) in known:
            if not self._passes(one, value, right):
                self.left_out.add("answer", one.key, "low_score", f"{value:g}", one.text)
            elif best is not None and one is not best[0]:
                self.left_out.add("answer", one.key, "not_the_best", f"{value:g}", one.text)
        return replace(best[0], score=best[1]) if best is not None else None

    def _passes(self, one: AnswerDraft, value: float, is_accepted: bool) -> bool:
        """Return True for a sufficient score; answers to a given task have to be accepted."""
        if one.item.is_given or self.config is None:
            return is_accepted
        return value >= self.config.min_score
