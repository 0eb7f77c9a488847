"""Programs, measured by the task's tests in the sandbox."""

from dataclasses import dataclass

from assay_reward.evidence import evidence_of_tests
from assay_reward.programs import has_tests, run_tests
from assay_reward.verifiers.verifier import AnswerContext, Measurement, Verifier
from assay_shared.settings.run_file import Config
from assay_shared.types import Grading, Status, TestReport


class CodeOptions(Config):
    """Options of the tests.

    With `forgeable: false`, tests are ungradable, and so not passed, if only the program's own
    process can run them: there, an object equal to everything would pass them.
    """

    forgeable: bool = True


@dataclass(frozen=True)
class RunTests:
    """`run_tests` of an answer, shared by components with equal `forgeable`."""

    forgeable: bool = True

    async def __call__(self, candidate: AnswerContext) -> TestReport:
        """Return the test report, and note it as evidence. Raises as `run_tests`."""
        report = await run_tests(
            candidate.instruments.sandbox,
            candidate.task,
            candidate.text,
            candidate.meter,
            forgeable=self.forgeable,
        )
        candidate.group.note(candidate.index, {}, evidence_of_tests(report))
        return report


def measured(report: TestReport, value: float) -> Measurement:
    """Return `value` as a measurement, with the test results as its detail."""
    forgeable = ", in the program's own process" if report.grading is Grading.IN_PROCESS else ""
    passed = f"{report.num_passed}/{len(report.cases)} tests passed{forgeable}"
    return Measurement(value, report.status, passed + _ungradable(report))


def _ungradable(report: TestReport) -> str:
    """Return the number of ungradable tests and the first reason; "" if all were graded."""
    reasons = [case.message for case in report.cases if case.status is Status.UNGRADABLE]
    return f"; {len(reasons)} ungradable: {reasons[0]}" if reasons else ""


async def _pass_ratio(candidate: AnswerContext, options: CodeOptions) -> Measurement:
    """Return the share of tests passed."""
    report = await candidate.once(RunTests(options.forgeable))
    return measured(report, report.pass_ratio)


async def _accepted(candidate: AnswerContext, options: CodeOptions) -> Measurement:
    """Return 1 if all tests pass, else 0."""
    report = await candidate.once(RunTests(options.forgeable))
    return measured(report, float(report.status is Status.ACCEPTED))


PASS_RATIO = Verifier(_pass_ratio, CodeOptions, has_tests)
ACCEPTED = Verifier(_accepted, CodeOptions, has_tests)
