"""Asks a model: requests without a stored reply, a number of them at once, each stored once."""

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from assay_shared.errors import AssayError, BudgetExceeded, Conflict, InvalidInput
from assay_shared.runtime.gather import gather
from assay_shared.types import (
    Completion,
    FinishReason,
    GenerateRequest,
    GenerateResponse,
    SamplingParams,
    Task,
)
from assay_trainer.demonstrations.instructions.asking_model.channel_check import ChannelCheck
from assay_trainer.demonstrations.instructions.asking_model.ledger import (
    LedgerEntry,
    ReplyLedger,
    SentPrompt,
)
from assay_trainer.demonstrations.instructions.asking_model.prompts import ModelPrompt
from assay_trainer.demonstrations.instructions.given.instructions_config import SamplingConfig
from assay_trainer.evaluate.playing.player import Answering, PlayUnit

#: If this number of first requests fail by the same error that no retry helps, all would.
_FIRST_REQUESTS = 8
_SEEDS = 2**31
#: Gets a title, the number of requests that are done, and of all.
OnAsked = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ModelRequest:
    """A prompt with its sampling. `key` is its place in the work."""

    key: str
    asked: ModelPrompt
    sampling: SamplingParams

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the whole request."""
        messages = self.asked.messages
        said = None if messages is None else [one.model_dump() for one in messages]
        whole = [self.key, said, self.asked.prompt, self.sampling.model_dump(mode="json")]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def request_for(key: str, asked: ModelPrompt, config: SamplingConfig, seed: int) -> ModelRequest:
    """Return the request of a key; its seed follows from the file's seed and the key."""
    sampling = SamplingParams(
        n=1,
        max_tokens=config.max_tokens,
        temperature=config.temperature,
        top_p=config.top_p,
        stop=asked.stop,
        seed=random.Random(f"{seed}/{key}").randrange(_SEEDS),
    )
    return ModelRequest(key, asked, sampling)


@dataclass
class Asker:
    """A model under a policy of retries: failures are told, and never stored as replies."""

    answering: Answering
    ledger: ReplyLedger
    channel: ChannelCheck
    concurrency: int
    #: Requests in a row without a reply that end the command.
    max_failed: int
    on_asked: OnAsked
    #: Leave out requests that still have no reply, in place of an end of the command.
    skip_failed: bool = False
    #: Why requests have no reply, by their keys. The next command asks for them again.
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    num_sampled: int = 0
    _failed_in_a_row: int = 0
    _last: str = ""
    _has_reply: bool = False

    async def ask(self, title: str, requests: Sequence[ModelRequest]) -> dict[str, LedgerEntry]:
        """Return the replies by the requests' keys, without refused requests.

        Raises:
            BudgetExceeded: requests had no reply, although they were made again.
            InvalidInput: the first requests were all refused alike.
            Conflict: another policy is served by now.
        """
        found: dict[str, LedgerEntry] = {}
        missing: list[ModelRequest] = []
        for one in requests:
            stored = self.ledger.find(one.key, one.digest)
            if stored is None:
                missing.append(one)
            else:
                found[one.key] = stored
        self._has_reply |= bool(found)
        before = len(self.failed)
        self.on_asked(title, len(found), len(requests))
        work = iter(missing)

        async def work_on() -> None:
            for one in work:
                reply = await self._reply(one)
                if reply is not None:
                    found[one.key] = reply
                self.on_asked(title, len(found), len(requests))

        await gather(work_on() for _ in range(min(self.concurrency, len(missing)) or 1))
        num_failed = len(self.failed) - before
        if num_failed and not self.skip_failed:
            raise BudgetExceeded(
                f"{num_failed} of {len(requests)} requests have no reply: {self._last}",
                hint="the same command asks for them again; --skip-failed leaves them out",
            )
        return found

    def why_no_reply(self, key: str) -> tuple[str, str]:
        """Return the reason against a request without a reply, and the message."""
        if key in self.failed:
            return "request_failed", self.failed[key]
        return "request_refused", self.refused.get(key, "")

    async def _reply(self, request: ModelRequest) -> LedgerEntry | None:
        """Return the stored reply; None of a refused or lost request."""
        try:
            response = await self._generate(request)
        except (Conflict, BudgetExceeded):
            raise
        except AssayError as error:
            told = f"{error.service or 'model'}: {error.message}"
            reasons = self.failed if error.retryable else self.refused
            reasons[request.key] = told
            self._count_failure(told, retryable=error.retryable)
            return None
        self._has_reply, self._failed_in_a_row = True, 0
        sent = self.channel.checked(request.asked.prompt, response.prompt_token_ids)
        self.num_sampled += 1
        return self.ledger.add(_entry(request, response.completions[0], sent))

    async def _generate(self, request: ModelRequest) -> GenerateResponse:
        task = Task(id=request.key)
        generator = self.answering.generator(
            PlayUnit(task, 0, 0, 1, request.sampling.max_tokens), request.key
        )
        response = await generator.generate(
            GenerateRequest(
                prompt=request.asked.prompt,
                messages=request.asked.messages,
                sampling=request.sampling,
            )
        )
        version = self.answering.version
        if version is not None and response.completions[0].policy != version:
            raise Conflict(
                "inference serves another policy by now",
                hint="--serve own samples from an engine that nobody else uses",
            )
        return response

    def _count_failure(self, told: str, *, retryable: bool) -> None:
        """Raise an error if all requests would fail."""
        is_same = told == self._last or not self._last
        self._failed_in_a_row += 1
        if not self._has_reply and not retryable and is_same:
            if self._failed_in_a_row >= _FIRST_REQUESTS:
                raise InvalidInput(
                    f"the first {self._failed_in_a_row} requests failed alike: {told}",
                    hint="once it is corrected, the same command resumes",
                )
        elif retryable and self._failed_in_a_row >= self.max_failed:
            raise BudgetExceeded(
                f"{self._failed_in_a_row} requests in a row have no reply: {told}",
                hint="the same command resumes",
            )
        self._last = told


def _entry(request: ModelRequest, reply: Completion, sent: SentPrompt | None) -> LedgerEntry:
    return LedgerEntry(
        key=request.key,
        request=request.digest,
        seed=request.sampling.seed,
        text=reply.text,
        num_tokens=len(reply.token_ids),
        truncated=reply.finish_reason is FinishReason.LENGTH,
        sent=sent,
    )
