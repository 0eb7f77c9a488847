"""Verifiers by themselves, with neighbours that do as they are told."""

from typing import Any

from assay_reward.measurement import Instruments, Measured, Meter, Sitting, Verifier
from assay_shared.errors import InfrastructureError, to_failure
from assay_shared.symbolic import Symbolic
from assay_shared.types import Answer, Failure, StdinCase
from tests.fakes import FakeJudge, FakeSandbox, make_task

FOUR_TESTS = (StdinCase(stdin="", expected_stdout="1"),) * 4


async def find(
    verifier: Verifier[Any],
    *answers: Answer,
    sandbox: FakeSandbox | None = None,
    judge: FakeJudge | None = None,
    symbolic: Symbolic | None = None,
    num_tokens: tuple[int, ...] = (),
    truncated: tuple[bool, ...] = (),
    options: dict[str, object] | None = None,
    **task: object,
) -> list[Measured | Failure]:
    """What the verifier finds of the answers, checked against its span."""
    instruments = Instruments(
        sandbox or FakeSandbox(), judge or FakeJudge(), symbolic or Symbolic(1.0)
    )
    changes: dict[str, object] = {"tests": FOUR_TESTS} | task
    sitting = Sitting(
        make_task("t", **changes), answers, instruments, num_tokens=num_tokens, truncated=truncated
    )
    sitting.admitted = tuple(range(len(answers)))
    chosen = verifier.options.model_validate(options or {})
    verifier.check(sitting.task, chosen)
    span = verifier.span(chosen)
    results: list[Measured | Failure] = []
    for index in sitting.admitted:
        try:
            found = await verifier.measure(sitting.candidate(index, Meter()), chosen)
        except InfrastructureError as error:
            found = to_failure(error, "reward")
        if isinstance(found, Measured):
            assert span.low <= found.value <= span.high
        results.append(found)
    return results


async def measure(verifier: Verifier[Any], *answers: Answer, **given: Any) -> list[float | None]:
    """The verifier's values for the answers; None where there is a failure."""
    found = await find(verifier, *answers, **given)
    return [one.value if isinstance(one, Measured) else None for one in found]
