"""Evidence has a size that no answer and no judge can exceed."""

import json

import pytest

from assay_reward.evidence import (
    MAX_JUDGE_BYTES,
    MAX_TESTS_BYTES,
    evidence_of_judgement,
    evidence_of_tests,
)
from assay_reward.instruments import ComponentUsage, Instruments
from assay_reward.verifiers.code import ACCEPTED, CodeOptions
from assay_reward.verifiers.judged import JUDGE, JudgeOptions
from assay_reward.verifiers.verifier import GroupContext
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.types import (
    Answer,
    CaseResult,
    Compilation,
    Grading,
    JudgeAttempt,
    Label,
    Status,
    TestReport,
    Verdict,
)
from tests.support.fakes import FakeJudge, FakeSandbox, make_task
from tests.support.reward.measuring import FOUR_TESTS

HOSTILE = "\x00\U0001f600" * 5000


def report(*cases: CaseResult, output: str = "") -> TestReport:
    compilation = Compilation(succeeded=False, output=output) if output else None
    return TestReport(
        status=Status.WRONG_ANSWER,
        cases=cases,
        grading=Grading.OUTSIDE,
        compilation=compilation,
        isolation="none",
    )


def test_failed_cases_come_first_and_keep_their_numbers() -> None:
    passed = CaseResult(status=Status.ACCEPTED)
    wrong = CaseResult(status=Status.WRONG_ANSWER, message="printed '3'")
    found = evidence_of_tests(report(*[passed] * 999, wrong))["tests"]
    assert isinstance(found, dict)
    cases = found["cases"]
    assert isinstance(cases, list)
    assert (found["passed"], found["of"]) == (999, 1000)
    last = {"case": 1000, "status": "wrong_answer", "message": "printed '3'"}
    assert cases[-1] == last | {"cpu_time_s": 0.0, "wall_time_s": 0.0}
    assert 50 < len(cases) < 1000


@pytest.mark.parametrize("output", ["", HOSTILE])
def test_the_size_of_tests_is_bounded(output: str) -> None:
    case = CaseResult(status=Status.RUNTIME_ERROR, message=HOSTILE)
    found = evidence_of_tests(report(*[case] * 100, output=output))
    assert len(json.dumps(found)) <= MAX_TESTS_BYTES + 100


def test_the_size_of_a_judgement_is_bounded() -> None:
    attempts = (JudgeAttempt(judge="j", num_requests=1, failed=HOSTILE[:500]),) * 30
    verdict = Verdict(label=Label.CORRECT, judge="j", reason=HOSTILE, history=attempts)
    assert len(json.dumps(evidence_of_judgement(verdict))) <= MAX_JUDGE_BYTES + 100


async def test_verifiers_note_evidence_of_each_answer() -> None:
    instruments = Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0))
    task = make_task("t", tests=FOUR_TESTS, reference="pass 4")
    group = GroupContext(task, (Answer(text="pass 1"), Answer(text="pass 4")), instruments)
    for index in (0, 1):
        candidate = group.candidate(index, ComponentUsage())
        await ACCEPTED.measure(candidate, CodeOptions())  # type: ignore[misc]
        await JUDGE.measure(candidate, JudgeOptions())  # type: ignore[misc]
    first, second = group.evidence[0], group.evidence[1]
    assert first["tests"]["passed"] == 1  # type: ignore[index, call-overload]
    assert second["tests"]["passed"] == 4  # type: ignore[index, call-overload]
    assert first["judge"]["label"] == "INCORRECT"  # type: ignore[index, call-overload]
    assert second["judge"]["label"] == "CORRECT"  # type: ignore[index, call-overload]
