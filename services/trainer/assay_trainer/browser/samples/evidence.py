"""What a sample's reward rests on, as titled texts: tests, judges, traces of workflows, costs."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue, ValidationError

from assay_shared.types import ComponentReport, JudgeAttempt, Task
from assay_trainer.browser.samples.detail import SampleDetail

#: Characters of a test, next to its result, and of other evidence.
_MOST_TEST, _MOST_OTHER = 500, 20_000


@dataclass(frozen=True)
class EvidencePart:
    """A part of the evidence, for people."""

    title: str
    text: str


class _StoredCase(BaseModel):
    """A case as the reward service notes it; cases are counted from 1."""

    case: int
    status: str
    message: str = ""
    cpu_time_s: float | None = None


class _StoredTests(BaseModel):
    """The cases of a program, failed ones before others if not all fitted."""

    passed: int
    of: int
    grading: str = ""
    compiler: str = ""
    cases: list[_StoredCase] = []


class _StoredJudgement(BaseModel):
    """A verdict in the judge's words, with all judges that were asked."""

    judge: str = ""
    label: str = ""
    score: float | None = None
    grades: dict[str, int] = {}
    words: str = ""
    votes: int = 1
    history: list[JudgeAttempt] = []


def evidence_parts(one: SampleDetail) -> list[EvidencePart]:
    """Return the evidence of a sample's reward or failure; none if none is stored."""
    evidence = {} if one.reward is None else one.reward.evidence
    found = [_part(name, content, one.task) for name, content in evidence.items()]
    if one.group.costs:
        costs = "\n".join(map(_cost, one.group.costs))
        found.append(EvidencePart("cost of the whole group", costs))
    return found


def _part(name: str, content: JsonValue, task: Task) -> EvidencePart:
    """Return a part of the evidence; what has an unknown form is shown as JSON."""
    known = _KNOWN.get(name)
    if known is not None:
        try:
            return EvidencePart(name, "\n".join(known(content, task)))
        except ValidationError:
            pass
    return EvidencePart(name, json.dumps(content, indent=1, ensure_ascii=False)[:_MOST_OTHER])


def _tests(content: JsonValue, task: Task) -> Iterator[str]:
    found = _StoredTests.model_validate(content)
    inside = ", in the program's own process" if found.grading == "in_process" else ""
    yield f"{found.passed} of {found.of} tests passed{inside}"
    if found.compiler:
        yield f"compiler: {found.compiler}"
    for one in found.cases:
        took = "" if one.cpu_time_s is None else f" in {one.cpu_time_s:.3f} s of CPU"
        yield f"test {one.case}: {one.status}{took}{f': {one.message}' if one.message else ''}"
        if one.status != "accepted" and 0 < one.case <= len(task.tests):
            yield f"  {task.tests[one.case - 1].model_dump_json()[:_MOST_TEST]}"
    if len(found.cases) < found.of:
        yield f"{found.of - len(found.cases)} more results are not stored"


def _judgement(content: JsonValue, task: Task) -> Iterator[str]:
    del task
    found = _StoredJudgement.model_validate(content)
    if found.judge:
        grades = ", ".join(f"{name} {grade}" for name, grade in found.grades.items())
        score = "" if found.score is None else f"{found.score:.3g} ({grades})"
        votes = f", {found.votes} votes" if found.votes > 1 else ""
        yield f"{found.label or score} by {found.judge}{votes}"
    if found.words:
        yield found.words
    yield from map(_attempt, found.history)


def _attempt(one: JudgeAttempt) -> str:
    told = f"failed: {one.failed}" if one.failed else "replied"
    return f"asked {one.judge}, {_counted(one.num_requests, 'request')}: {told}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _cost(one: ComponentReport) -> str:
    cost = one.cost
    told = [f"{one.name}: {one.time_s:.2f} s"]
    if cost.sandbox_cpu_s:
        told.append(f"{cost.sandbox_cpu_s:.2f} s of sandbox CPU")
    if cost.judge_tokens:
        told.append(f"{cost.judge_tokens:,} tokens of judges")
    if cost.money:
        told.append(f"{cost.money:.6g} of money")
    return ", ".join(told)


_KNOWN: dict[str, Callable[[JsonValue, Task], Iterator[str]]] = {
    "tests": _tests,
    "judge": _judgement,
}


def evidence_text(parts: Sequence[EvidencePart]) -> str:
    """Return all parts as one text."""
    return "\n\n".join(f"{part.title}\n{part.text}" for part in parts)
