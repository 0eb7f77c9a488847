"""What a measurement rests on, for people: cases of tests, and judges' words, within a size.

Evidence travels with each sample and is stored with it. It never reaches the policy.
"""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from assay_shared.types import CaseResult, Judgement, Status, TestReport, Verdict

#: Bytes of JSON of an answer's tests, and of its judgement.
MAX_TESTS_BYTES, MAX_JUDGE_BYTES = 8192, 4096
#: Characters of a case's message, of a compiler's output, and of a judge's words.
_MAX_MESSAGE, _MAX_OUTPUT, _MAX_WORDS = 400, 1000, 2000


def evidence_of_tests(report: TestReport) -> dict[str, JsonValue]:
    """Return the results of the cases under `tests`: as many as fit, failed ones first.

    Cases are counted from 1, in the order of the task's tests.
    """
    found: dict[str, JsonValue] = {
        "passed": report.num_passed,
        "of": len(report.cases),
        "grading": report.grading.value,
    }
    compilation = report.compilation
    if compilation is not None and not compilation.succeeded:
        output = compilation.output[:_MAX_OUTPUT]
        found["compiler"] = _fitting(output, MAX_TESTS_BYTES // 2)
    left = MAX_TESTS_BYTES - _size(found)
    cases: dict[int, JsonValue] = {}
    for number, case in _failed_first(report.cases):
        one: JsonValue = {"case": number, **_case(case)}
        left -= _size(one) + 2
        if left < 0:
            break
        cases[number] = one
    found["cases"] = [cases[number] for number in sorted(cases)]
    return {"tests": found}


def _failed_first(cases: tuple[CaseResult, ...]) -> Iterator[tuple[int, CaseResult]]:
    numbered = list(enumerate(cases, start=1))
    yield from (one for one in numbered if one[1].status is not Status.ACCEPTED)
    yield from (one for one in numbered if one[1].status is Status.ACCEPTED)


def _case(case: CaseResult) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {"status": case.status.value if case.status else "not_run"}
    if case.message:
        found["message"] = case.message[:_MAX_MESSAGE]
    if case.status is not None:
        found["cpu_time_s"] = round(case.cpu_time_s, 4)
        found["wall_time_s"] = round(case.wall_time_s, 4)
    return found


def evidence_of_judgement(judgement: Judgement) -> dict[str, JsonValue]:
    """Return under `judge` the verdict in the judge's words, and all judges that were asked."""
    found: dict[str, JsonValue] = {}
    if isinstance(judgement, Verdict):
        found["judge"] = judgement.judge
        if judgement.label is not None:
            found["label"] = judgement.label.value
        if judgement.score is not None:
            found["score"] = judgement.score
            found["grades"] = dict(judgement.grades)
        found["words"] = _fitting(judgement.reason[:_MAX_WORDS], MAX_JUDGE_BYTES // 2)
        found["votes"] = judgement.num_votes
    left = MAX_JUDGE_BYTES - _size(found) - 20
    history: list[JsonValue] = []
    for attempt in judgement.history:
        one = attempt.model_dump(exclude_defaults=True)
        left -= _size(one) + 2
        if left < 0:
            break
        history.append(one)
    found["history"] = history
    return {"judge": found}


def _fitting(text: str, most: int) -> str:
    """Return the beginning of a text that has at most `most` bytes of JSON."""
    while _size(text) > most:
        text = text[: len(text) // 2]
    return text


def _size(value: JsonValue) -> int:
    """Return an upper bound of the value's bytes of JSON."""
    return len(json.dumps(value))
