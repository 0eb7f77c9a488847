"""Verifiers of how an answer is said: overlong, repetition, language."""

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from assay_reward.idempotency import ResponseCache
from assay_reward.instruments import Instruments
from assay_reward.rubric import Rubrics
from assay_reward.scorer import Scorer
from assay_reward.verifiers.judged import GRADED, JUDGE
from assay_reward.verifiers.language import LANGUAGE
from assay_reward.verifiers.overlong import OVERLONG, soft_overlong
from assay_reward.verifiers.repetition import REPETITION
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import ConfigError, InvalidInput
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.types import (
    Answer,
    JudgeForm,
    JudgeRequest,
    JudgeResponse,
    Scored,
    ScoreRequest,
    Verdict,
)
from tests.support.fakes import FakeJudge, FakeSandbox, make_task
from tests.support.reward.measuring import measure


@pytest.mark.parametrize(
    ("num_tokens", "value"),
    [(0, 0.0), (16384, 0.0), (17408, -0.25), (18432, -0.5), (20480, -1.0), (20481, -1.0)],
)
def test_the_punishment_grows_over_the_buffer(num_tokens: int, value: float) -> None:
    assert soft_overlong(num_tokens, max_tokens=20480, buffer_tokens=4096) == value


async def test_each_answer_is_punished_by_its_own_length() -> None:
    options = {"max_tokens": 10, "buffer_tokens": 4}
    found = await measure(OVERLONG, "a", "b", "c", options=options, num_tokens=(6, 8, 99))
    assert found == [0.0, -0.5, -1.0]


async def test_a_rubric_that_needs_lengths_says_so() -> None:
    scorer = Scorer(
        Rubrics(None),
        Instruments(FakeSandbox(), FakeJudge(), Symbolic(1.0)),
        FairLimiter(1, 1),
        ResponseCache(0),
        CollectorRegistry(),
    )
    task = make_task(gold="7", rubric="math.dapo")
    with pytest.raises(InvalidInput, match=r"answers\.1\.num_tokens: overlong needs the length"):
        await scorer.score(ScoreRequest(task=task, answers=(Answer(text="7", num_tokens=1), "8")))
    answers = (Answer(text="7", num_tokens=18432), Answer(text="8", num_tokens=5))
    request = ScoreRequest(task=task, answers=answers)
    rewards = (await scorer.score(request)).rewards
    assert [one.value for one in rewards if isinstance(one, Scored)] == [0.75, 0.0]


@pytest.mark.parametrize("answer", [7, None, {"text": ()}, {"turns": "a"}, {"num_tokens": 1}])
def test_what_is_not_an_answer_is_refused_by_its_field(answer: object) -> None:
    body = {"task": {}, "answers": ["a", {"text": ["a", "b"], "truncated": True}, answer]}
    with pytest.raises(ValidationError, match=r"for ScoreRequest\nanswers\.2"):
        ScoreRequest.model_validate(body)


async def test_repeated_words_cost_their_share() -> None:
    answers = ("one two three four five", "go " * 8, "a b c a b c", "short", "")
    found = await measure(REPETITION, *answers, options={"words": 3})
    assert found == pytest.approx([1.0, 1 / 6, 0.75, 1.0, 1.0])


GERMAN = "Das Wetter ist heute schön, und wir gehen alle zusammen in den Park."
ENGLISH = "The weather is nice today, and we will all walk to the park together."


@pytest.mark.slow
async def test_the_language_of_a_sentence_is_told() -> None:
    answers = (GERMAN, ENGLISH, "Hm.", "12345")
    assert await measure(LANGUAGE, *answers, options={"languages": ["de"]}) == [1, 0, 1, 1]


async def test_the_script_of_the_letters_is_counted() -> None:
    answers = ("so x = 7", "абвг", "ab вг", "答案 is", "7 = 7")
    found = await measure(LANGUAGE, *answers, options={"scripts": ["Latin"]})
    assert found == [1.0, 0.0, 0.5, 0.5, 1.0]
    both = await measure(LANGUAGE, "答案 is", options={"scripts": ["Latin", "Han"]})
    assert both == [1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of languages and scripts"),
        ({"languages": ["de"], "scripts": ["Latin"]}, "exactly one"),
        ({"scripts": ["Klingonese"]}, "no script called 'Klingonese'"),
        ({"languages": ["tlh"]}, "the language 'tlh' cannot be told"),
    ],
)
async def test_a_language_that_cannot_be_told_is_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        await measure(LANGUAGE, "x", options=options)


class GradingJudge(FakeJudge):
    """Grades by length."""

    async def judge(self, request: JudgeRequest) -> JudgeResponse:
        if request.form is JudgeForm.BINARY:
            return await super().judge(request)
        self.requests.append(request)
        verdicts = (
            Verdict(score=len(answer) / 4, grades={"style": len(answer)}, judge="fake")
            for answer in request.answers
        )
        return JudgeResponse(judgements=tuple(verdicts))


async def test_a_groups_grades_come_from_one_request() -> None:
    judge = GradingJudge()
    criterion = {"name": "style", "description": "Is it well written?", "low": 0, "high": 4}
    options = {"criteria": [criterion], "template": "mine"}
    assert await measure(GRADED, "a", "abcd", judge=judge, options=options) == [0.25, 1.0]
    (request,) = judge.requests
    assert (request.form, request.template) == (JudgeForm.GRADED, "mine")
    assert [one.name for one in request.criteria] == ["style"]


async def test_the_judges_prompt_is_an_option() -> None:
    judge = FakeJudge()
    await measure(JUDGE, "x", judge=judge, options={"template": "strict"})
    assert [request.template for request in judge.requests] == ["strict"]
