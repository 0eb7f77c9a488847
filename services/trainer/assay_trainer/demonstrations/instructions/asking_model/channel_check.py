"""The check that raw prompts reach the engine as they are, as `assay verify` makes it.

At the start, built-in prompts go raw, through the template and with planted tokens. Then the ids of
each request are compared before its reply is stored.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from assay_shared.errors import InvalidInput
from assay_shared.interfaces import Generator
from assay_shared.runtime.gather import gather
from assay_shared.types import PolicyVersion
from assay_trainer.demonstrations.instructions.asking_model.ledger import LedgerEntry, SentPrompt
from assay_trainer.verification.asking import ProbeReply, reply_to
from assay_trainer.verification.channel import ChannelVerdict, find_unclean, judge_channel
from assay_trainer.verification.model_tokens import ModelTokens
from assay_trainer.verification.probes import probes_of

_AT_ONCE = 8
_MAX_SHOWN = 200


@dataclass(frozen=True)
class ChannelCheck:
    """The model's tokens, or the reason why nothing is checked; and the verdict at the start."""

    tokens: ModelTokens | None = None
    not_checked: str = ""
    at_start: ChannelVerdict | None = None

    def checked(self, prompt: str | None, ids: Sequence[int]) -> SentPrompt | None:
        """Return what the engine read of a raw prompt; None where that is not checked.

        Raises:
            InvalidInput: it read something else than the prompt.
        """
        if self.tokens is None or prompt is None:
            return None
        found = find_unclean(prompt, ids, self.tokens)
        if found.is_unclean:
            names = ", ".join(one.token for one in found.control_tokens[:3])
            told = f"the control tokens {names}" if names else f"other ids from {found.differs_at}"
            raise InvalidInput(
                f"a raw prompt reached the engine with {told}: {prompt[:_MAX_SHOWN]!r}",
                field="prompt_format",
                hint="`assay verify` shows what enters",
            )
        bos = self.tokens.bos
        return SentPrompt(
            num_tokens=len(ids),
            has_bos=bos is not None and tuple(ids[:1]) == (bos,),
            ids=hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest(),
        )

    def facts(self, entries: Sequence[LedgerEntry]) -> dict[str, JsonValue]:
        """Return the proof for the manifest: the verdict, and what was compared."""
        if self.at_start is None:
            return {"verdict": "NOT_CHECKED", "reason": self.not_checked}
        sent = [one.sent for one in entries if one.sent is not None]
        whole = hashlib.sha256("".join(sorted(one.ids for one in sent)).encode())
        return {
            "verdict": self.at_start.verdict,
            "num_prompts": len(sent),
            "num_tokens": sum(one.num_tokens for one in sent),
            "num_with_bos": sum(one.has_bos for one in sent),
            "num_unclean": 0,
            "ids_digest": whole.hexdigest(),
            "built_in_prompts": self.at_start.num_prompts,
            "planted": [
                {"form": str(one.form), "sent": one.num_sent, "found": one.num_found}
                for one in self.at_start.controls
            ],
        }


async def check_channel(
    client: Generator, tokens: ModelTokens, version: PolicyVersion
) -> ChannelCheck:
    """Send built-in prompts, and return the check of a channel that is clean.

    Raises:
        InvalidInput: a prompt did not reach the engine as it is, or a planted token was not found.
    """
    probes = probes_of((), (), tokens, 1)
    replies: dict[str, ProbeReply] = {}
    work = iter(probes)

    async def ask() -> None:
        for one in work:
            replies[one.key] = await reply_to(client, one, version)

    await gather(ask() for _ in range(_AT_ONCE))
    verdict = judge_channel(probes, replies, tokens)
    if verdict.verdict != "CLEAN":
        raise InvalidInput(
            f"the channel of raw prompts is {verdict.verdict}: {verdict.num_unclean} of "
            f"{verdict.num_prompts} prompts did not reach the engine as they are",
            field="prompt_format",
            hint="`assay verify` shows each of them",
        )
    return ChannelCheck(tokens, at_start=verdict)
