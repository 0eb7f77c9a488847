"""The verifier of a user-defined reward: a single call for all answers of a group."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from assay_reward.instruments import ComponentUsage
from assay_reward.own.source import Function, OwnSource
from assay_reward.verifiers.own_values import OwnOptions, OwnValue, read_values, write_call
from assay_reward.verifiers.verifier import AnswerContext, GroupContext, Measurement, Verifier
from assay_shared.types import Failure, Status

#: Answers with more characters are serialised in a thread.
_LARGE = 2**16


@dataclass(frozen=True)
class AskOwn:
    """A call for all admitted answers, shared by components with equal source and options."""

    source: OwnSource
    #: The function; None if the source is a URL.
    function: Function | None
    options: OwnOptions = field(compare=False)
    #: The options as JSON, for comparison.
    key: str

    async def __call__(
        self, group: GroupContext, meter: ComponentUsage
    ) -> dict[int, OwnValue | Failure]:
        options, own = self.options, group.instruments.own
        answers = [group.answers[index].text for index in group.admitted]
        if sum(sum(map(len, answer)) for answer in answers) > _LARGE:
            question = await asyncio.to_thread(write_call, group.task, answers, options)
        else:
            question = write_call(group.task, answers, options)
        if self.function is None:
            assert self.source.url is not None
            call = own.addresses.call(self.source.url, question, timeout_s=options.timeout_s)
        else:
            call = own.processes.call(
                self.function,
                question,
                timeout_s=options.timeout_s,
                memory_bytes=options.memory_bytes,
            )
        values = read_values(str(self.source), await call, len(answers), options.span)
        return dict(zip(group.admitted, values, strict=True))


def own_verifier(source: OwnSource, function: Function | None) -> Verifier[OwnOptions]:
    """Return the verifier for the user-defined reward `source`."""
    return Verifier(
        partial(_measure, source, function), OwnOptions, span=lambda options: options.span
    )


async def _measure(
    source: OwnSource, function: Function | None, candidate: AnswerContext, options: OwnOptions
) -> Measurement | Failure:
    ask = AskOwn(source, function, options, options.model_dump_json())
    found = await candidate.once_for_all(ask)
    if isinstance(found, Failure):
        return found
    assert found.value is not None
    outcome = Status.ACCEPTED if options.is_accepted(found.value) else Status.WRONG_ANSWER
    return Measurement(found.value, outcome, found.detail)
