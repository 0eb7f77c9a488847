"""Requests to vLLM's server over its socket. Token ids in and out, no texts."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from assay_inference.engines.child.http import (
    CONNECT_TIMEOUT_S,
    Drawn,
    Json,
    RequestRefused,
    ServerConnection,
    as_callers,
    derived_seed,
)
from assay_inference.engines.vllm.process import MODEL
from assay_shared.errors import EngineFault, InvalidInput, Unreachable
from assay_shared.types import FinishReason, SamplingParams, Structure, TopLogprobs

#: Shorter than vLLM is told to.
_KEEP_ALIVE_S = 30.0
#: What vLLM says where a log-probability is minus infinity.
_EXCLUDED = -9999.0


class VllmApi(ServerConnection):
    """Implements `assay_inference.engines.child.http.ServerApi`, with vLLM's own routes."""

    def __init__(self, socket: Path) -> None:
        connector = aiohttp.UnixConnector(str(socket), limit=0, keepalive_timeout=_KEEP_ALIVE_S)
        super().__init__("vLLM", connector)

    async def rpc(self, method: str, timeout_s: float, **arguments: object) -> list[dict[str, Any]]:
        """Call a method of all workers; an answer of each."""
        body: Json = {"method": method, "kwargs": arguments, "timeout": timeout_s}
        answer = json.loads(await self.text("POST", "/collective_rpc", body, timeout_s))
        return [result or {} for result in answer["results"]]

    async def pause(self, timeout_s: float) -> None:
        """Give up sequences still in flight for lost clients."""
        await self.text("POST", "/pause?mode=abort", None, timeout_s)

    async def resume(self, timeout_s: float) -> None:
        await self.text("POST", "/resume", None, timeout_s)

    async def reset_prefix_cache(self, timeout_s: float) -> None:
        text = await self.text("POST", "/reset_prefix_cache", None, timeout_s)
        if text and json.loads(text).get("success") is False:
            raise Unreachable("vLLM does not let go of its prefix cache")

    async def prompt_logprobs(self, token_ids: Sequence[int], timeout_s: float) -> list[float]:
        """Return the log-probability of each id but the first, given the ids before it."""
        return [logprob for logprob, _ in await self.read(token_ids, 0, timeout_s)]

    async def read(
        self, token_ids: Sequence[int], num_top: int, timeout_s: float
    ) -> list[tuple[float, TopLogprobs]]:
        """Return the same, each with the `num_top` most probable ids in its place."""
        body: Json = {
            "model": MODEL,
            "prompt": list(token_ids),
            "max_tokens": 1,
            "temperature": 0,
            "prompt_logprobs": num_top,
        }
        answer = json.loads(await self.text("POST", "/v1/completions", body, timeout_s))
        found = answer["choices"][0]["prompt_logprobs"][1:]
        return [
            (float(entry[str(token_id)]["logprob"]), _top_of_prompt(entry, num_top))
            for token_id, entry in zip(token_ids[1:], found, strict=True)
        ]

    async def generate(
        self,
        prompt: list[int],
        sampling: SamplingParams,
        end_ids: frozenset[int],
        timeout_s: float,
    ) -> list[Drawn]:
        """Return all samples, once all are finished."""
        body = _generation(prompt, sampling, end_ids)
        with as_callers():
            async with self._held_to(sampling.structure):
                answer = json.loads(await self.text("POST", "/v1/completions", body, timeout_s))
        drawn = [Drawn() for _ in range(sampling.n)]
        for choice in answer["choices"]:
            _add(drawn[choice["index"]], choice, prompt, sampling.top_logprobs)
        return drawn

    async def stream(
        self,
        prompt: list[int],
        sampling: SamplingParams,
        end_ids: frozenset[int],
        timeout_s: float,
    ) -> AsyncGenerator[tuple[int, Drawn], None]:
        """Yield a sample's index and all of its tokens so far, each time it grows."""
        body = _generation(prompt, sampling, end_ids) | {"stream": True}
        drawn = [Drawn() for _ in range(sampling.n)]
        events = self.events("/v1/completions", body, timeout_s)
        with as_callers():
            async with self._held_to(sampling.structure), aclosing(events):
                async for event in events:
                    for choice in event["choices"]:
                        _add(drawn[choice["index"]], choice, prompt, sampling.top_logprobs)
                        yield choice["index"], drawn[choice["index"]]

    @asynccontextmanager
    async def _held_to(self, structure: Structure | None) -> AsyncIterator[None]:
        """Turn the 400 or 500 of vLLM's grammar compiler into an error of the caller.

        Raises:
            InvalidInput: vLLM itself is well, and does not take the form.
        """
        try:
            yield
        except (RequestRefused, Unreachable) as error:
            if structure is None:
                raise
            await self.check_health(CONNECT_TIMEOUT_S)
            raise InvalidInput(
                f"no answer can be held to this form: {error.message}", field="sampling.structure"
            ) from error


def _generation(prompt: list[int], sampling: SamplingParams, end_ids: frozenset[int]) -> Json:
    structure = sampling.structure
    held: Json = {} if structure is None else {"structured_outputs": _structured_outputs(structure)}
    return (
        held
        | _rules(sampling)
        | {
            "model": MODEL,
            "prompt": prompt,
            "n": sampling.n,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop": list(sampling.stop),
            "stop_token_ids": sorted(end_ids),
            # vLLM gives sample i the seed plus i: neighbouring seeds would share samples.
            "seed": None if sampling.seed is None else derived_seed(str(sampling.seed)),
            "logprobs": sampling.top_logprobs,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }
    )


def _rules(sampling: SamplingParams) -> Json:
    """Return the parameters with other than default values."""
    return sampling.model_dump(
        mode="json",
        exclude_defaults=True,
        include={
            "top_k",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "ignore_eos",
            "min_tokens",
        },
    )


def _top_of_prompt(entry: dict[str, dict[str, Any]], num_top: int) -> TopLogprobs:
    """Return the most probable ids; the prompt's id is among them, with any rank."""
    ranked = [(int(i), float(one["logprob"])) for i, one in entry.items() if one["rank"] <= num_top]
    return tuple(sorted(ranked, key=lambda pair: -pair[1]))


def _structured_outputs(structure: Structure) -> Json:
    """Return the structure under vLLM's names."""
    if structure.json_schema is not None:
        return {"json": structure.json_schema}
    if structure.choice is not None:
        return {"choice": list(structure.choice)}
    return {"regex": structure.regex} if structure.regex is not None else {"json_object": True}


def _top_of_drawn(entry: dict[str, float], num_top: int) -> TopLogprobs:
    """Return the most probable ids; vLLM writes `token_id:7`, with a stand-in for excluded ids."""
    ids = ((int(name.rpartition(":")[2]), value) for name, value in entry.items())
    ranked = sorted((pair for pair in ids if pair[1] > _EXCLUDED), key=lambda pair: -pair[1])
    return tuple(ranked[:num_top])


def _add(drawn: Drawn, choice: dict[str, Any], prompt: list[int], num_top: int) -> None:
    """Add a whole choice or a further part of it."""
    sent = choice.get("prompt_token_ids")
    if sent is not None and sent != prompt:
        raise EngineFault("vLLM read other token ids than those that were sent")
    logprobs = choice["logprobs"]
    ids = choice["token_ids"]
    if isinstance(ids, list) and isinstance(logprobs, dict):
        drawn.token_ids += ids
        drawn.logprobs += logprobs["token_logprobs"]
        if num_top:
            drawn.top_logprobs += [_top_of_drawn(one, num_top) for one in logprobs["top_logprobs"]]
    reason = choice.get("finish_reason")
    if reason is not None:
        if reason not in ("stop", "length", "abort"):
            raise Unreachable(f"vLLM gave a sample up: {reason}")
        drawn.finish_reason = None if reason == "abort" else FinishReason(reason)
