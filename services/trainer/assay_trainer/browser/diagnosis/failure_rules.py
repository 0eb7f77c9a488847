"""Rules about samples without a score, tasks set aside, and judges."""

from collections import Counter
from collections.abc import Iterator

from assay_trainer.browser.diagnosis.facts import DiagnosedFacts
from assay_trainer.browser.diagnosis.finding import RunFinding
from assay_trainer.browser.facts.funnel import failure_words

_FAILED, _SET_ASIDE = 0.05, 0.05
_OTHER_JUDGE, _UNSURE = 0.2, 0.2
_FEWEST_JUDGED = 8
_FIXES = {
    "caller": "fix the task, the rubric or the setting that the message names",
    "sandbox": "read the sandbox's log, and compare ASSAY_SANDBOX_SLOTS with cores and memory",
    "judge": "raise max_tokens or timeout_s in the judge's file, or lower its limits",
    "executor": "read the executor's log, and raise timeout_s in its file",
    "network": "`assay doctor` says which service cannot be reached",
    "overload": "add replicas or slots of that service, or lower grpo.max_staleness or workers",
    "budget": "raise the ceiling of costs in the judge's or the executor's file",
    "internal": "the service's log has the fault by its request_id",
}


def failures(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding for each class of failures with many samples."""
    counts: Counter[str] = Counter()
    for one in facts.recent:
        counts.update(one.failures)
    number = counts.total() + sum(sum(one.outcomes.values()) for one in facts.recent)
    for name, failed in counts.most_common():
        if failed > _FAILED * number:
            yield RunFinding(
                f"failures_{name}",
                f"{failed / number:.0%} of the samples have no reward because "
                f"{failure_words(name)} (limit {_FAILED:.0%})",
                f"{_FIXES.get(name, 'read the messages')}; `assay samples RUN --outcome "
                f"failed:{name}` shows them",
                failed / number,
                _FAILED,
                "AssayRewardFailures",
            )


def set_aside(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if many groups are of tasks that cannot be used."""
    played = sum(one.num_played for one in facts.recent)
    share = sum(one.num_set_aside for one in facts.recent) / played if played else 0.0
    if share > _SET_ASIDE:
        yield RunFinding(
            "set_aside",
            f"the tasks of {share:.0%} of the groups were set aside (limit {_SET_ASIDE:.0%})",
            "events.jsonl has each reason (task_set_aside); fix the rows of data.train, or lower "
            "grpo.max_tokens if prompts do not fit the context",
            share,
            _SET_ASIDE,
        )


def judge_drift(facts: DiagnosedFacts) -> Iterator[RunFinding]:
    """Yield a finding if another judge decides than at first, or the judge becomes unsure."""
    half = len(facts.judged) // 2
    if half < _FEWEST_JUDGED:
        return
    before, after = facts.judged[:half], facts.judged[-half:]
    main = Counter(one.judge for one in before).most_common(1)[0][0]
    shares = [sum(one.judge == main for one in end) / half for end in (before, after)]
    if shares[0] - shares[1] > _OTHER_JUDGE:
        yield RunFinding(
            "judge_changed",
            f"judge {main} decided {shares[0]:.0%} of the first judged groups and {shares[1]:.0%} "
            f"of the last (limit {_OTHER_JUDGE:.0%} fewer)",
            "verdicts of two judges are not on one scale; read the judge's log for why it is "
            "passed over (open_after, limits, budget), and calibrate the one that took its place",
            shares[0] - shares[1],
            _OTHER_JUDGE,
            "AssayJudgeLeftAlone",
        )
    unsure = [
        sum(one.labels["UNSURE"] for one in end) / max(1, sum(one.labels.total() for one in end))
        for end in (before, after)
    ]
    if unsure[1] > max(_UNSURE, 2 * unsure[0]):
        yield RunFinding(
            "judge_unsure",
            f"the judge is unsure of {unsure[1]:.0%} of the last answers, and of {unsure[0]:.0%} "
            f"of the first (limit {_UNSURE:.0%})",
            "the answers have left what the judge was calibrated on; run `assay judge calibrate` "
            "with answers of this policy, or give references in data.train",
            unsure[1],
            _UNSURE,
        )


RULES = (failures, set_aside, judge_drift)
