"""A request sampled by a server, in several calls if new weights come in between."""

import math
from bisect import bisect_left
from contextlib import aclosing
from functools import partial

from assay_inference.engines.child.child import EngineChild
from assay_inference.engines.child.http import Drawn, derived_seed
from assay_inference.engines.engine import OnText
from assay_inference.engines.sample import Restartable, Sample
from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_inference.weights.checkpoint import Checkpoint
from assay_shared.errors import NotFinite
from assay_shared.runtime.gather import gather
from assay_shared.types import Completion, FinishReason, PromptLogprobs, SamplingParams


class ChildGeneration(Restartable[Sample]):
    """Call `go_on` until `is_finished`; in between, its samples are kept or discarded."""

    def __init__(
        self, prompt: list[int], sampling: SamplingParams, on_text: OnText | None, timeout_s: float
    ) -> None:
        """Prepare a request; `timeout_s` limits each call to the child."""
        self._prompt = prompt
        self._sampling = sampling
        self._on_text = on_text
        self._timeout_s = timeout_s
        #: Greedy samples are all the same, and the server draws one alone.
        self._num_copies = sampling.n if sampling.temperature == 0 else 1
        self.samples = self._new_samples()

    def _new_samples(self) -> list[Sample]:
        number = self._sampling.n // self._num_copies
        sampling = self._sampling
        return [Sample(sampling.stop, sampling.min_tokens) for _ in range(number)]

    async def go_on(self, replica: EngineChild) -> None:
        """Sample until all samples are finished, or the server gives up the unfinished ones.

        Raises:
            Unreachable, TimedOut: it is gone or hangs.
            NotReady: as `redraw`.
        """
        if self._sampling.counts_its_tokens and any(s.token_ids for s in self.samples):
            # The server would take what is drawn for a part of the prompt.
            self.redraw()
        if not any(sample.token_ids or sample.finish_reason for sample in self.samples):
            sampling = self._sampling.model_copy(update={"n": len(self.samples)})
            return await self._draw(replica, sampling, list(range(len(self.samples))))
        await gather(
            self._draw(replica, self._rest(index), [index])
            for index, sample in enumerate(self.samples)
            if sample.finish_reason is None
        )

    def _rest(self, index: int) -> SamplingParams:
        """Return the parameters of a sample's rest, with a seed unlike its earlier calls'."""
        sampling, num_drawn = self._sampling, len(self.samples[index].token_ids)
        seed = None
        if sampling.seed is not None:
            seed = derived_seed(f"{sampling.seed}/{index}/{num_drawn}")
        left = sampling.max_tokens - num_drawn
        return sampling.model_copy(update={"n": 1, "max_tokens": left, "seed": seed})

    async def _draw(self, replica: EngineChild, sampling: SamplingParams, at: list[int]) -> None:
        """Call the server once; its samples belong to the indices `at`."""
        checkpoint = replica.checkpoint
        ends = sampling.ends(checkpoint.vocabulary.end_ids)
        samples = [self.samples[index] for index in at]
        prompt = self._prompt + samples[0].token_ids
        if self._on_text is None:
            drawn = await replica.api.generate(prompt, sampling, ends, self._timeout_s)
        else:
            drawn = [Drawn() for _ in samples]
            events = replica.api.stream(prompt, sampling, ends, self._timeout_s)
            async with aclosing(events):
                async for number, one in events:
                    drawn[number] = one
                    self._show(at[number], checkpoint.vocabulary, one)
        for index, one in zip(at, drawn, strict=True):
            self._take_in(index, one, checkpoint)

    def _take_in(self, index: int, one: Drawn, checkpoint: Checkpoint) -> None:
        """Add a call's tokens to a sample."""
        sample, vocabulary = self.samples[index], checkpoint.vocabulary
        if not all(map(math.isfinite, one.logprobs)):
            raise NotFinite(
                f"version {checkpoint.policy.version} gives log-probabilities that are not finite"
            )
        num_before = len(sample.token_ids)
        sample.token_ids += one.token_ids
        sample.logprobs += one.logprobs
        sample.top_logprobs += one.top_logprobs
        sample.finish_reason = one.finish_reason
        if num_before:
            self._stop_at_seam(sample, num_before, vocabulary)
        sample.spans.add(checkpoint.policy, len(sample.token_ids) - num_before)
        if sample.finish_reason is None and self._on_text is None:
            return
        is_stopped = self._show(index, vocabulary, Drawn(finish_reason=one.finish_reason))
        ends = self._sampling.ends(vocabulary.end_ids)
        is_ended = is_stopped or not ends.isdisjoint(sample.token_ids[-1:])
        if sample.finish_reason is FinishReason.LENGTH and is_ended:
            # An engine that checks the limit first reports it for ended samples too.
            sample.finish_reason = FinishReason.STOP

    def _stop_at_seam(self, sample: Sample, num_before: int, vocabulary: PolicyTokenizer) -> None:
        """Stop at a stop string begun before this call: the server saw only the rest of it."""

        def has_stop(length: int) -> bool:
            text = vocabulary.decode(sample.token_ids[:length])
            return any(stop in text for stop in self._sampling.stop)

        if not self._sampling.stop or not has_stop(len(sample.token_ids)):
            return
        lengths = range(num_before + 1, len(sample.token_ids) + 1)
        length = lengths[bisect_left(lengths, True, key=has_stop)]
        del sample.token_ids[length:], sample.logprobs[length:], sample.top_logprobs[length:]
        sample.finish_reason = FinishReason.STOP

    def _show(self, index: int, vocabulary: PolicyTokenizer, further: Drawn) -> bool:
        """Update the text and stream its certain part; return True at a stop string."""
        sample = self.samples[index]
        send = None if self._on_text is None else partial(self._send, index)
        final = (further.finish_reason or sample.finish_reason) is not None
        ids = sample.token_ids + further.token_ids
        return sample.transcript.update(vocabulary, ids, send, final=final)

    def _send(self, index: int, text: str) -> None:
        for copy in range(self._num_copies):
            if self._on_text is not None:
                self._on_text(index + copy, text)

    def completions(self) -> list[Completion]:
        """Return the completions of all samples, once they are finished."""
        return [s.completion() for s in self.samples for _ in range(self._num_copies)]


async def read_prompt(
    replica: EngineChild, token_ids: list[int], num_top: int, timeout_s: float
) -> PromptLogprobs:
    """Return the log-probabilities of these ids under the replica's weights.

    Raises:
        Unreachable, TimedOut: it is gone or hangs.
    """
    policy = replica.checkpoint.policy
    read = await replica.api.read(token_ids, num_top, timeout_s)
    return PromptLogprobs(
        token_ids=tuple(token_ids),
        logprobs=(None, *(logprob for logprob, _ in read)),
        top_logprobs=((), *(top for _, top in read)) if num_top else (),
        policy=policy,
    )
