"""Evidence is told in words, and evidence of an unknown form as JSON."""

from pydantic import JsonValue

from assay_shared.types import ComponentReport, Cost, Scored
from assay_trainer.browser.samples.detail import detail_of
from assay_trainer.browser.samples.evidence import evidence_parts
from assay_trainer.rollouts.rollout_log import TrainedGroup
from tests.support.browser.stored_runs import make_group

TESTS = [
    {"kind": "call", "function": "double", "args": [4], "expected": 8},
    {"kind": "call", "function": "double", "args": [0], "expected": 0},
]


def told(**evidence: JsonValue) -> dict[str, str]:
    """Return the texts of a sample's evidence by title."""
    scored = make_group(1, 0, "wrong_answer", tests=TESTS)
    reward = scored.rewards[0]
    assert isinstance(reward, Scored)
    cost = ComponentReport(name="tests", time_s=1.5, cost=Cost(sandbox_cpu_s=0.25))
    group = TrainedGroup(
        step=1,
        **scored.model_copy(
            update={
                "rewards": (reward.model_copy(update={"evidence": evidence}),),
                "costs": (cost,),
            }
        ).__dict__,
    )
    return {part.title: part.text for part in evidence_parts(detail_of(group, 0, [None], ""))}


def test_cases_are_told_with_the_failed_ones_tests() -> None:
    cases: list[JsonValue] = [
        {"case": 1, "status": "wrong_answer", "message": "returned 4", "cpu_time_s": 0.002},
        {"case": 2, "status": "accepted"},
    ]
    text = told(tests={"passed": 1, "of": 3, "grading": "outside", "cases": cases})["tests"]
    assert text.splitlines() == [
        "1 of 3 tests passed",
        "test 1: wrong_answer in 0.002 s of CPU: returned 4",
        '  {"kind":"call","function":"double","args":[4],"expected":8}',
        "test 2: accepted",
        "1 more results are not stored",
    ]


def test_a_judges_words_come_with_all_judges_that_were_asked() -> None:
    history: list[JsonValue] = [
        {"judge": "large", "num_requests": 4, "failed": "large: no reply"},
        {"judge": "small", "num_requests": 1},
    ]
    found = told(judge={"judge": "small", "label": "CORRECT", "words": "Same.", "history": history})
    assert found["judge"].splitlines() == [
        "CORRECT by small",
        "Same.",
        "asked large, 4 requests: failed: large: no reply",
        "asked small, 1 request: replied",
    ]
    assert found["cost of the whole group"] == "tests: 1.50 s, 0.25 s of sandbox CPU"


def test_what_has_another_form_is_shown_as_it_is() -> None:
    found = told(tests={"passed": "many"}, own=[1])
    assert found["tests"] == '{\n "passed": "many"\n}'
    assert found["own"] == "[\n 1\n]"
