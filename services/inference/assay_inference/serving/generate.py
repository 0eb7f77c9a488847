"""Generation for the routes: admission first, then the engine."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from assay_inference.engines.engine import OnText, Sampler
from assay_inference.serving.admission import Admission
from assay_inference.tokenizer.chat_template import Turn
from assay_inference.tokenizer.texts import Texts
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.telemetry.tracing import Value, is_on, span
from assay_shared.types import Completion, LogprobsRequest, Message, PromptLogprobs, SamplingParams


class Generation:
    """An engine behind admission, and the tokenisation of its prompts."""

    def __init__(self, engine: Sampler, admission: Admission, texts: Texts) -> None:
        self._engine = engine
        self._admission = admission
        self._texts = texts

    @property
    def vocabulary(self) -> PolicyTokenizer:
        """The served policy's tokenizer. Raises NotReady if no weights are served."""
        return self._engine.vocabulary

    async def encode(self, texts: Sequence[str], num_sequences: int) -> list[list[int]]:
        """Call `Texts.encode`, unless admission would refuse `num_sequences` more sequences."""
        self._admission.check_open(num_sequences)
        return await self._texts.encode(self.vocabulary, texts)

    async def encode_turns(
        self,
        turns: Sequence[Turn],
        tools: Sequence[Turn],
        variables: Mapping[str, JsonValue],
        num_sequences: int,
    ) -> list[int]:
        """Call `Texts.encode_turns`, unless admission would refuse the request."""
        self._admission.check_open(num_sequences)
        return await self._texts.encode_turns(self.vocabulary, turns, tools, variables)

    async def encode_further(
        self,
        token_ids: list[int],
        messages: Sequence[Message],
        variables: Mapping[str, JsonValue],
        num_sequences: int,
    ) -> list[int]:
        """Call `Texts.encode_further`, unless admission would refuse the request."""
        self._admission.check_open(num_sequences)
        return await self._texts.encode_further(self.vocabulary, token_ids, messages, variables)

    async def encode_continued(self, request: LogprobsRequest) -> tuple[list[int], int]:
        """Call `Texts.encode_continued`, unless admission would refuse the request."""
        self._admission.check_open(1)
        return await self._texts.encode_continued(self.vocabulary, request)

    async def generate(
        self, prompt_token_ids: list[int], sampling: SamplingParams, on_text: OnText | None = None
    ) -> list[Completion]:
        """Call `Engine.generate` when admission gives a turn.

        A request too large for the engine is refused without waiting.

        Raises:
            Overloaded: the queue is full, or the request's deadline passed before its turn.
            NotReady: the service is being drained.
        """
        self._engine.check_fits(prompt_token_ids, sampling)
        num_cached = sampling.n * (len(prompt_token_ids) + sampling.max_tokens)
        num_tokens = len(prompt_token_ids) + sampling.n * sampling.max_tokens
        with span("inference.draw", samples=sampling.n, prompt_tokens=len(prompt_token_ids)) as one:
            async with self._admission.enter(sampling.n, num_tokens, num_cached):
                drawn = await self._engine.generate(prompt_token_ids, sampling, on_text)
            if is_on():
                one.note(**_facts(drawn))
        return drawn

    def room_after(self, prompt: list[int]) -> int:
        """Return the maximum tokens of an answer, by the context and the engine's cache.

        With a limit of the cache it is at least 1, so that a prompt without room is refused by an
        error with its numbers.
        """
        most = self._engine.max_tokens
        room = self.vocabulary.room_after(prompt)
        return room if most is None else max(1, min(room, most - len(prompt)))

    async def prompt_logprobs(self, token_ids: list[int], num_top: int) -> PromptLogprobs:
        """Call `Engine.prompt_logprobs`, as a single sequence of the queue.

        Raises:
            InvalidInput: the ids are not the model's, or too many for its context.
            Overloaded, NotReady: as `generate`.
        """
        self.vocabulary.check_ids(token_ids, "token_ids")
        self.vocabulary.check_length(token_ids)
        async with self._admission.enter(1, len(token_ids)):
            return await self._engine.prompt_logprobs(token_ids, num_top)


def _facts(drawn: list[Completion]) -> dict[str, Value]:
    return {
        "tokens": sum(len(completion.token_ids) for completion in drawn),
        "version": min((completion.policy.version for completion in drawn), default=-1),
    }
