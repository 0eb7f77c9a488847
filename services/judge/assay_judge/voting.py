"""Majority votes on doubtful verdicts: self-consistency (2203.11171), or a panel of judges."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from assay_judge.config import Voting
from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.providers.provider import JudgeCall, Provider
from assay_shared.errors import AssayError, BudgetExceeded
from assay_shared.runtime.gather import gather
from assay_shared.types import JudgeRequest, Label


class Votes:
    """Settles doubtful findings of binary judgements by a vote."""

    def __init__(self, voting: Voting, panel: Sequence[Provider]) -> None:
        self._voting = voting
        self._panel = panel

    def _is_in_doubt(self, finding: ParsedReply) -> bool:
        certain = finding.confidence is None or finding.confidence >= self._voting.below
        return finding.value is Label.UNSURE or not certain

    async def settle(
        self,
        first: ParsedReply,
        judge: Provider,
        request: JudgeRequest,
        index: int,
        ask: JudgePrompt,
        asking: JudgeCall,
    ) -> ParsedReply:
        """Return `first` if it is beyond doubt, else the majority label, or UNSURE without one.

        A majority is more than half of the replies, `first` included. Failed votes are not counted.

        Raises:
            BudgetExceeded: a vote would cost more than is left.
        """
        if not self._is_in_doubt(first):
            return first
        if self._voting.by == "self":
            voters = [(judge, vote) for vote in range(1, self._voting.votes + 1)]
        else:
            voters = [(other, 0) for other in self._panel if other is not judge]

        async def vote(voter: Provider, number: int) -> ParsedReply | None:
            try:
                return await voter.find(request, index, ask, replace(asking, vote=number))
            except BudgetExceeded:
                raise
            except AssayError:
                return None

        more = await gather(vote(*one) for one in voters)
        found = [first, *(one for one in more if one is not None)]
        num_requests = sum(one.num_requests for one in found)
        label, count = Counter(one.value for one in found).most_common(1)[0]
        if 2 * count <= len(found):
            reason = f"{len(found)} votes without a majority"
            label = Label.UNSURE
        else:
            reason = next(one.reason for one in found if one.value == label)
        return ParsedReply(label, reason, num_votes=len(found), num_requests=num_requests)
