"""Sends the inputs of a verification to the engine; each reply is stored once."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from assay_shared.clients import InferenceClient, RetryBudget
from assay_shared.errors import Conflict, DatasetError, InvalidInput, TooLarge
from assay_shared.interfaces import Generator
from assay_shared.runs.run_folder import append_line
from assay_shared.runtime.gather import gather
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import FinishReason, PolicyVersion
from assay_shared.types.wire import Wire
from assay_trainer.verification.probes import ChannelProbe

_REPLIES = "replies.jsonl"
_RETRY = RetryBudget(attempts=20, total_s=45.0, absent_s=10.0)
#: Fields that the service names for a text that leaves no room for an answer, or that it does not
#: tokenise: it has more characters than a context of this length can hold, or takes too long.
_OF_TEXT = ("sampling.max_tokens", "prompt", "messages")


class ProbeReply(Wire):
    """A line of replies.jsonl: the ids that the engine read, and its answer."""

    key: str
    #: Empty if the service refused the input, in most cases as longer than the model's context.
    prompt_ids: tuple[int, ...] = ()
    answer_ids: tuple[int, ...] = ()
    text: str = ""
    ended: bool = False
    refused: str | None = None


def stored_replies(output: Path) -> dict[str, ProbeReply]:
    """Return the replies of a folder by their keys; a last line that a kill cut is left out.

    Raises:
        DatasetError: another line is not as it was written.
    """
    file = output / _REPLIES
    if not file.exists():
        return {}
    *lines, _cut = file.read_bytes().split(b"\n")
    try:
        replies = [ProbeReply.model_validate_json(line) for line in lines]
    except ValueError as error:
        raise DatasetError(f"{file} cannot be read: {error}") from None
    return {one.key: one for one in replies}


async def ask_missing(
    probes: Sequence[ChannelProbe],
    output: Path,
    settings: ServiceSettings,
    version: PolicyVersion,
    concurrency: int,
    on_reply: Callable[[], None],
) -> None:
    """Send the inputs that have no stored reply, and store each reply as it comes.

    Raises:
        Conflict: the service has begun to serve another policy.
        AssayError: something is down; stored replies stay.
    """
    stored = stored_replies(output)
    missing = [one for one in probes if one.key not in stored]
    room = asyncio.Semaphore(concurrency)
    async with InferenceClient.from_settings(settings, retry=_RETRY) as client:

        async def ask(probe: ChannelProbe) -> None:
            async with room:
                reply = await reply_to(client, probe, version)
            append_line(output / _REPLIES, reply.model_dump_json())
            on_reply()

        await gather(map(ask, missing))


async def reply_to(client: Generator, probe: ChannelProbe, version: PolicyVersion) -> ProbeReply:
    """Return the reply of an engine to an input.

    Raises:
        Conflict: the service has begun to serve another policy.
        AssayError: something is down.
    """
    try:
        found = await client.generate(probe.request)
    except TooLarge as error:
        return ProbeReply(key=probe.key, refused=error.message)
    except InvalidInput as error:
        if error.field not in _OF_TEXT:
            raise
        return ProbeReply(key=probe.key, refused=error.message)
    (answer,) = found.completions
    if answer.policy != version:
        raise Conflict(
            "inference serves another policy by now",
            hint="--serve own verifies with an engine that nobody else uses",
        )
    return ProbeReply(
        key=probe.key,
        prompt_ids=found.prompt_token_ids,
        answer_ids=answer.token_ids,
        text=answer.text,
        ended=answer.finish_reason is FinishReason.STOP,
    )
