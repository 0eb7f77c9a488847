"""The decision of a group, and its fate without any decision."""

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from assay_judge.chain import JudgeChain, make_chain
from assay_judge.checks import ReferenceChecks
from assay_judge.config import JudgeConfig, OpenAIProviderConfig, ReferenceProviderConfig, Voting
from assay_judge.forms.forms import JudgePrompt, ParsedReply
from assay_judge.providers.provider import JudgeCall, Provider
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import BudgetExceeded, ConfigError, JudgeFault, Unreachable
from assay_shared.providers.state.state import SharedState, make_shared_state
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.types import (
    Abstention,
    FailureClass,
    JudgeForm,
    Judgement,
    JudgeRequest,
    Label,
    Verdict,
)

REQUEST = JudgeRequest(question="q", answers=("a", "b", "c"), reference="a")
PAIR = JudgeRequest(question="q", answers=("a", "b"), form=JudgeForm.PAIRWISE)


class Scripted:
    """Finds by a table of asks' indices; missing entries fail."""

    forms = frozenset(JudgeForm)
    has_prompt = True
    is_open = False

    def __init__(
        self, name: str, table: dict[int, list[object]], error: Exception | None = None
    ) -> None:
        self.name = name
        self.table = table
        self.error = error or JudgeFault(f"{name} gave no reply")
        self.asked: list[int] = []

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def find(
        self, request: JudgeRequest, index: int, ask: JudgePrompt, asking: JudgeCall
    ) -> ParsedReply:
        self.asked.append(index)
        values = self.table.get(index, [])
        if len(values) <= asking.vote:
            raise self.error
        value = values[asking.vote]
        return value if isinstance(value, ParsedReply) else ParsedReply(value)  # type: ignore[arg-type]


def always(value: object, num_asks: int = 3) -> dict[int, list[object]]:
    return {i: [value] for i in range(num_asks)}


async def judge(
    *providers: Provider, request: JudgeRequest = REQUEST, config: JudgeConfig | None = None
) -> tuple[Judgement, ...]:
    config = config or JudgeConfig()
    verifier = ReferenceChecks(config.verify, Symbolic(5.0))
    gate, registry = FairLimiter(8, 8), CollectorRegistry()
    chain = JudgeChain(list(providers), config, verifier, gate, registry)
    judgements = (await chain.judge(request)).judgements
    await chain.close()
    return judgements


async def test_the_first_provider_that_decides_all_is_the_judge() -> None:
    first, second = Scripted("first", always(Label.CORRECT)), Scripted("second", {})
    judgements = await judge(first, second)
    assert [one.judge for one in judgements if isinstance(one, Verdict)] == ["first"] * 3
    assert second.asked == []


@pytest.mark.promise("one judge scores a group")
async def test_one_undecided_answer_sends_the_whole_group_to_the_next_judge() -> None:
    """Two judges are two scales; a group's rewards are compared with each other."""
    first = Scripted("first", always(Label.CORRECT, 2))
    second = Scripted("second", always(Label.INCORRECT))
    judgements = await judge(first, second)
    assert [one.judge for one in judgements if isinstance(one, Verdict)] == ["second"] * 3
    assert sorted(second.asked) == [0, 1, 2]


async def test_when_none_decides_all_the_best_one_judges_and_the_rest_abstains() -> None:
    first = Scripted("first", always(Label.CORRECT, 1))
    second = Scripted("second", {0: [Label.INCORRECT], 1: [Label.CORRECT]})
    a, b, c = await judge(first, second)
    assert isinstance(a, Verdict)
    assert isinstance(b, Verdict)
    assert (a.judge, a.label, b.judge) == ("second", Label.INCORRECT, "second")
    assert isinstance(c, Abstention)
    assert c.failure.failure_class is FailureClass.JUDGE
    assert c.failure.message == "first: first gave no reply; second: second gave no reply"
    assert c.failure.attempts == 2


async def test_with_every_provider_down_all_abstain_and_say_why() -> None:
    down = Unreachable("connection refused")
    judgements = await judge(Scripted("first", {}, down), Scripted("second", {}, down))
    assert all(isinstance(one, Abstention) and one.failure.retryable for one in judgements)


async def test_a_pair_with_half_an_answer_is_no_verdict() -> None:
    first, second = Scripted("first", always(0, 1)), Scripted("second", always(0, 1))
    judgements = await judge(first, second, request=PAIR)
    assert all(isinstance(one, Abstention) for one in judgements)
    judgements = await judge(first, Scripted("third", always(1, 2)), request=PAIR)
    assert [one.score for one in judgements if isinstance(one, Verdict)] == [0.0, 1.0]


async def test_what_has_been_spent_is_a_failure_of_the_budget() -> None:
    spent = BudgetExceeded("5.00 of 5.00 spent")
    (first, *_) = await judge(Scripted("first", {}, spent))
    assert isinstance(first, Abstention)
    assert first.failure.failure_class is FailureClass.BUDGET
    assert not first.failure.retryable


async def test_a_form_that_no_provider_has_is_a_failure() -> None:
    only_binary = Scripted("first", always(0))
    only_binary.forms = frozenset({JudgeForm.BINARY})
    (one, _) = await judge(only_binary, request=PAIR)
    assert isinstance(one, Abstention)
    assert not one.failure.retryable


# Verifier first


async def test_checks_decide_first_and_a_model_is_asked_for_the_rest() -> None:
    request = JudgeRequest(
        question="q", answers=("42", "The 42.", "forty-two", "41"), reference="42"
    )
    model = Scripted("model", always(Label.CORRECT))
    config = JudgeConfig(verify=("exact", "number"))
    judgements = await judge(model, request=request, config=config)
    found = [(one.judge, one.label) for one in judgements if isinstance(one, Verdict)]
    assert found == [
        ("verifier:exact", Label.CORRECT),
        ("verifier:exact", Label.CORRECT),
        ("model", Label.CORRECT),
        ("verifier:number", Label.INCORRECT),
    ]
    assert model.asked == [0]


_NEARLY = (
    ("5", "-5"),
    ("15", "1.5"),
    ("x-y", "x+y"),
    ("a<b", "a>b"),
    ("12", "1/2"),
    ("23", "2^3"),
    ("1030", "10:30"),
    ("50", "50%"),
    ("C", "C++"),
)


@pytest.mark.parametrize(
    ("check", "answer", "reference", "label"),
    [
        ("choice", "(b)", "B", Label.CORRECT),
        ("choice", "C.", "B", Label.INCORRECT),
        ("choice", "B because", "B", None),
        ("number", "1,000", "1000.0", Label.CORRECT),
        ("number", "about 7", "7", None),
        ("number", "50%", "0.5", Label.CORRECT),
        ("number", "5 km", "5000 m", Label.CORRECT),
        ("number", "5 km", "5 kg", None),
        ("exact", "The cat!", "cat", Label.CORRECT),
        *(("exact", one, other, None) for one, other in _NEARLY),
        ("exact", "dog", "cat", None),
        ("exact", "!", "?", None),
        ("symbolic", r"\frac{1}{2}", r"\frac{2}{4}", Label.CORRECT),
        ("symbolic", r"\frac{1}{2}", r"\frac{1}{3}", None),
        ("symbolic", "words", "other words", None),
    ],
)
async def test_a_check_decides_what_is_certain(
    check: str, answer: str, reference: str, label: Label | None
) -> None:
    verifier = ReferenceChecks((check,), Symbolic(30.0))  # type: ignore[arg-type]
    request = JudgeRequest(question="q", answers=(answer,), reference=reference)
    verdict = await verifier.decide(request, answer)
    verifier.close()
    assert (verdict.label if verdict else None) == label


# Votes


@pytest.mark.parametrize(
    ("replies", "label", "num_votes"),
    [
        ([ParsedReply(Label.CORRECT, confidence=0.9)], Label.CORRECT, 1),
        ([ParsedReply(Label.CORRECT, confidence=0.5), *[Label.INCORRECT] * 2], Label.INCORRECT, 3),
        ([Label.UNSURE, Label.CORRECT, Label.CORRECT], Label.CORRECT, 3),
        ([Label.UNSURE, Label.CORRECT, Label.INCORRECT], Label.UNSURE, 3),
        ([ParsedReply(Label.CORRECT, confidence=0.5), Label.INCORRECT], Label.UNSURE, 2),
        ([Label.UNSURE], Label.UNSURE, 1),
    ],
)
async def test_more_replies_settle_a_doubt(
    replies: list[object], label: Label, num_votes: int
) -> None:
    one = REQUEST.model_copy(update={"answers": ("a",)})
    config = JudgeConfig(voting=Voting(votes=2, below=0.7))
    (verdict,) = await judge(Scripted("first", {0: replies}), request=one, config=config)
    assert isinstance(verdict, Verdict)
    assert (verdict.label, verdict.num_votes) == (label, num_votes)


async def test_a_panel_is_the_other_providers() -> None:
    one = REQUEST.model_copy(update={"answers": ("a",)})
    config = JudgeConfig(voting=Voting(by="panel"))
    others = [Scripted(name, always(Label.CORRECT, 1)) for name in ("second", "third")]
    first = Scripted("first", {0: [Label.UNSURE]})
    (verdict,) = await judge(first, *others, request=one, config=config)
    assert isinstance(verdict, Verdict)
    assert (verdict.label, verdict.num_votes) == (Label.CORRECT, 3)


# History


async def test_a_judgement_names_all_judges_that_were_asked() -> None:
    first = Scripted("first", {0: [Label.CORRECT], 1: [Label.CORRECT]})
    read = ParsedReply(Label.CORRECT, num_requests=2)
    second = Scripted("second", {0: [read], 1: [read], 2: [read]})
    found = await judge(first, second)
    told = [[(a.judge, a.num_requests, a.failed) for a in one.history] for one in found]
    both = [("first", 0, ""), ("second", 2, "")]
    assert told[:2] == [both, both]
    ((name, requests, failed), last) = told[2]
    assert (name, requests, last) == ("first", 1, ("second", 2, ""))
    assert "first gave no reply" in failed
    (lost, _) = await judge(Scripted("first", {}), request=PAIR)
    assert isinstance(lost, Abstention)
    ((attempt),) = lost.history
    assert "first gave no reply" in attempt.failed


# Configuration


def test_an_empty_chain_and_equal_names_are_refused() -> None:
    with pytest.raises(ValidationError, match="at least 1 item"):
        JudgeConfig(chain=())
    with pytest.raises(ValidationError, match="two providers are called 'reference'"):
        JudgeConfig(chain=(ReferenceProviderConfig(), ReferenceProviderConfig()))


def test_a_missing_key_stops_the_start() -> None:
    def make(**key: object) -> None:
        values = {"name": "primary", "base_url": "http://127.0.0.1:1/v1", "model": "m"} | key
        config = JudgeConfig(chain=(OpenAIProviderConfig.model_validate(values),))
        make_chain(config, process_state(), FairLimiter(1, 1), CollectorRegistry())

    with pytest.raises(ConfigError, match="'primary' needs the environment variable NO_SUCH_KEY"):
        make(api_key_env="NO_SUCH_KEY")
    with pytest.raises(ConfigError, match="'primary' needs the key in /none/key: No such file"):
        make(api_key_file="/none/key")
    with pytest.raises(ValidationError, match="not both"):
        make(api_key_env="A", api_key_file="/b")


def process_state() -> SharedState:
    return make_shared_state("judge", None, CollectorRegistry())
