"""Verifiers alone, with neighbours under the test's orders."""

from inspect import isawaitable
from itertools import zip_longest
from typing import Any

from assay_reward.instruments import ComponentUsage, Instruments
from assay_reward.long_texts import most_at_once, start_measuring
from assay_reward.rubric import ComponentConfig
from assay_reward.verifiers import VERIFIERS
from assay_reward.verifiers.verifier import GroupContext, Measurement, Verifier
from assay_shared.answers.formulas.symbolic import Symbolic
from assay_shared.errors import InfrastructureError, TooHard, to_failure
from assay_shared.runtime.workers import Workers
from assay_shared.types import Answer, AnswerText, Failure, FailureClass, StdinCase
from tests.support.fakes import FakeJudge, FakeSandbox, make_task

#: Closed at the end of the session.
WORKERS = Workers(("assay_reward.long_texts", "assay_reward.workflows.playing.reading"), num=1)
FOUR_TESTS = (StdinCase(stdin="", expected_stdout="1"),) * 4


async def find(
    verifier: Verifier[Any],
    *answers: AnswerText,
    sandbox: FakeSandbox | None = None,
    judge: FakeJudge | None = None,
    symbolic: Symbolic | None = None,
    num_tokens: tuple[int, ...] = (),
    truncated: tuple[bool, ...] = (),
    options: dict[str, object] | None = None,
    cpu_s: float = 20.0,
    **task: object,
) -> list[Measurement | Failure]:
    """Return the verifier's findings on the answers, checked against its span."""
    instruments = Instruments(
        sandbox or FakeSandbox(),
        judge or FakeJudge(),
        symbolic or Symbolic(1.0),
        workers=WORKERS,
        cpu_s=cpu_s,
    )
    name = next(name for name, known in VERIFIERS.items() if known is verifier)
    component = ComponentConfig.model_validate({"verifier": name, "options": options or {}})
    changes: dict[str, object] = {"tests": FOUR_TESTS} | task
    given = tuple(
        Answer(text=text, num_tokens=length, truncated=cut)
        for text, length, cut in zip_longest(answers, num_tokens, truncated)
    )
    group = GroupContext(make_task("t", **changes), given, instruments)
    chosen = component.parsed_options
    verifier.check(group.task, chosen)
    span = verifier.span(chosen)
    results: list[Measurement | Failure] = []
    for index in group.admitted:
        try:
            measured = start_measuring(
                group.candidate(index, ComponentUsage()),
                component,
                most_at_once(group, component),
            )
            found = await measured if isawaitable(measured) else measured
        except (InfrastructureError, TooHard) as error:
            found = to_failure(error, "reward")
        if isinstance(found, Measurement):
            assert span.low <= found.value <= span.high
        results.append(found)
    return results


async def measure(
    verifier: Verifier[Any], *answers: AnswerText, **given: Any
) -> list[float | None]:
    """Return the verifier's values for the answers; None for a failure."""
    found = await find(verifier, *answers, **given)
    return [one.value if isinstance(one, Measurement) else None for one in found]


def assert_too_hard(found: Measurement | Failure) -> None:
    """Check for a failure beyond retries, a wrong answer to a rubric."""
    assert isinstance(found, Failure)
    assert (found.failure_class, found.retryable) == (FailureClass.BUDGET, False)
