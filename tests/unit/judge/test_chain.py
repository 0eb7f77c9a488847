import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from assay_judge.config import JudgeConfig, OpenAIProviderConfig, ReferenceProviderConfig
from assay_judge.judge import JudgeChain, make_providers
from assay_judge.provider import Provider
from assay_shared.admission import Gate
from assay_shared.errors import ConfigError, JudgeFault, Unreachable
from assay_shared.types import Abstention, FailureClass, Judgement, JudgeRequest, Label, Verdict

REQUEST = JudgeRequest(question="q", answers=("a", "b", "c"), reference="a")


class Scripted:
    """Decides by a table; what is not in it fails."""

    def __init__(self, name: str, table: dict[str, Label], error: Exception | None = None) -> None:
        self.name = name
        self.table = table
        self.error = error or JudgeFault(f"{name} gave no reply")
        self.asked: list[str] = []

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def decide(self, question: str, answer: str, reference: str | None) -> Verdict:
        self.asked.append(answer)
        if answer not in self.table:
            raise self.error
        return Verdict(label=self.table[answer], judge=self.name)


async def judge(*providers: Provider) -> tuple[Judgement, ...]:
    chain = JudgeChain(list(providers), Gate(8, 8), CollectorRegistry())
    return (await chain.judge(REQUEST)).judgements


ALL = dict.fromkeys("abc", Label.CORRECT)


async def test_the_first_provider_that_decides_all_is_the_judge() -> None:
    first, second = Scripted("first", ALL), Scripted("second", ALL)
    judgements = await judge(first, second)
    assert [one.judge for one in judgements if isinstance(one, Verdict)] == ["first"] * 3
    assert second.asked == []


async def test_one_undecided_answer_sends_the_whole_group_to_the_next_judge() -> None:
    """Two judges are two scales; a group's rewards are compared with each other."""
    first = Scripted("first", {"a": Label.CORRECT, "b": Label.CORRECT})
    second = Scripted("second", dict.fromkeys("abc", Label.INCORRECT))
    judgements = await judge(first, second)
    assert [one.judge for one in judgements if isinstance(one, Verdict)] == ["second"] * 3
    assert sorted(second.asked) == ["a", "b", "c"]


async def test_when_none_decides_all_the_best_one_judges_and_the_rest_abstains() -> None:
    first = Scripted("first", {"a": Label.CORRECT})
    second = Scripted("second", {"a": Label.INCORRECT, "b": Label.CORRECT})
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


def test_an_empty_chain_and_equal_names_are_refused() -> None:
    with pytest.raises(ValidationError, match="at least 1 item"):
        JudgeConfig(chain=())
    with pytest.raises(ValidationError, match="two providers are called 'reference'"):
        JudgeConfig(chain=(ReferenceProviderConfig(), ReferenceProviderConfig()))


def test_a_missing_key_variable_stops_the_start() -> None:
    provider = OpenAIProviderConfig(
        name="primary", base_url="http://127.0.0.1:1/v1", model="m", api_key_env="NO_SUCH_KEY"
    )
    with pytest.raises(ConfigError, match="'primary' needs the environment variable NO_SUCH_KEY"):
        make_providers(JudgeConfig(chain=(provider,)))
