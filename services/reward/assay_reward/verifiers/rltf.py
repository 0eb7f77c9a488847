"""RLTF's rewards of a program, from its test results (arXiv 2307.04349)."""

from assay_reward.programs import has_tests
from assay_reward.verifiers.code import CodeOptions, RunTests, measured
from assay_reward.verifiers.verifier import AnswerContext, Measurement, ValueRange, Verifier
from assay_shared.types import Failure, FailureClass, Status

_PASS, _FAIL, _ERROR, _SYNTAX = 1.0, -0.3, -0.6, -1.0
_COARSE = {
    Status.ACCEPTED: _PASS,
    Status.WRONG_ANSWER: _FAIL,
    Status.COMPILE_ERROR: _SYNTAX,
    Status.SYNTAX_ERROR: _SYNTAX,
}


class RLTFOptions(CodeOptions):
    """Options of truncated programs.

    With `score_truncated`, a syntax error in a truncated program is scored like any other;
    without it, the program has no reward.
    """

    score_truncated: bool = False


def _cut_off(candidate: AnswerContext, status: Status, options: RLTFOptions) -> Failure | None:
    broken = status in (Status.SYNTAX_ERROR, Status.COMPILE_ERROR)
    if options.score_truncated or not broken or not candidate.is_truncated:
        return None
    return Failure(
        failure_class=FailureClass.BUDGET,
        service="inference",
        message="the program was cut off at the token limit: its syntax error is not its own",
        retryable=False,
    )


async def _coarse(candidate: AnswerContext, options: RLTFOptions) -> Measurement | Failure:
    """Return 1 if all tests pass, -0.3 if wrong, -0.6 for an error, -1 for a syntax error."""
    report = await candidate.once(RunTests(options.forgeable))
    cut_off = _cut_off(candidate, report.status, options)
    return cut_off or measured(report, _COARSE.get(report.status, _ERROR))


async def _adaptive(candidate: AnswerContext, options: RLTFOptions) -> Measurement | Failure:
    """Return -0.3 + 1.3 * the share of tests passed."""
    report = await candidate.once(RunTests(options.forgeable))
    cut_off = _cut_off(candidate, report.status, options)
    return cut_off or measured(report, _FAIL + (_PASS - _FAIL) * report.pass_ratio)


RLTF_COARSE = Verifier(_coarse, RLTFOptions, has_tests, span=lambda _: ValueRange(_SYNTAX, _PASS))
RLTF_ADAPTIVE = Verifier(_adaptive, RLTFOptions, has_tests, span=lambda _: ValueRange(_FAIL, _PASS))
