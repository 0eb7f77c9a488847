"""Requests to SGLang's server. Token ids in and out, no texts."""

import hashlib
import json
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import aiohttp

from assay_inference.engines.child.http import (
    Drawn,
    Json,
    RequestRefused,
    ServerConnection,
    as_callers,
)
from assay_shared.errors import EngineFault, InternalFault, Unreachable
from assay_shared.types import FinishReason, SamplingParams, TopLogprobs

#: Shorter than SGLang keeps a connection (5 s): a request on one that is being closed is lost.
_KEEP_ALIVE_S = 2.0
_BAD_REQUEST = 400
_EXCLUDED = -1e30


class SglangApi(ServerConnection):
    """Implements `assay_inference.engines.child.http.ServerApi`, with SGLang's own routes.

    Each answer must be of `weight_version`.
    """

    def __init__(self, url: str, api_key: str, weight_version: str) -> None:
        super().__init__(
            "SGLang",
            aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
            base_url=url,
            headers={"Authorization": f"Bearer {api_key}"},
        )
        self._weight_version = weight_version

    async def generate_one_token(self, timeout_s: float) -> None:
        """Generate one token, to show that the engine works under any load."""
        await self.text("GET", "/health_generate", None, timeout_s)

    async def server_info(self, timeout_s: float) -> dict[str, Any]:
        """Return SGLang's options with their resolved values."""
        info: dict[str, Any] = json.loads(await self.text("GET", "/server_info", None, timeout_s))
        return info

    async def update_weights(self, folder: str, weight_version: str, timeout_s: float) -> None:
        """Have the server load a folder.

        Raises:
            InternalFault: it could not; its weights are unknown then.
        """
        body: Json = {
            "model_path": folder,
            "weight_version": weight_version,
            "abort_all_requests": True,
            "flush_cache": True,
        }
        text = await self.text("POST", "/update_weights_from_disk", body, timeout_s)
        if json.loads(text)["success"] is not True:
            raise InternalFault(f"SGLang did not take the weights: {text[:400]}")
        self._weight_version = weight_version

    async def checksums(self, timeout_s: float) -> list[dict[str, str]]:
        """Return a hash of all bytes of each worker's tensor, by the tensor's own name."""
        body: Json = {"action": "checksum"}
        text = await self.text("POST", "/weights_checker", body, timeout_s)
        return [dict(rank["checksums"]) for rank in json.loads(text)["ranks"]]

    async def prompt_logprobs(self, token_ids: Sequence[int], timeout_s: float) -> list[float]:
        """Return the log-probability of each id but the first, given the ids before it."""
        return [logprob for logprob, _ in await self.read(token_ids, 0, timeout_s)]

    async def read(
        self, token_ids: Sequence[int], num_top: int, timeout_s: float
    ) -> list[tuple[float, TopLogprobs]]:
        """Return the same, each with the `num_top` most probable ids in its place."""
        body: Json = {
            "input_ids": list(token_ids),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": num_top,
        }
        answer = json.loads(await self.text("POST", "/generate", body, timeout_s))
        self._check_version(answer["meta_info"])
        found = answer["meta_info"]["input_token_logprobs"]
        if [token_id for _, token_id, *_ in found] != list(token_ids):
            raise InternalFault("SGLang read other token ids than those that were sent")
        values = [float(logprob) for logprob, *_ in found[1:]]
        if not num_top:
            return [(value, ()) for value in values]
        tops = [_top(one) for one in answer["meta_info"]["input_top_logprobs"][1:]]
        return list(zip(values, tops, strict=True))

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
            answers = json.loads(await self.text("POST", "/generate", body, timeout_s))
            return [self._drawn(answer, prompt) for answer in answers]

    async def stream(
        self,
        prompt: list[int],
        sampling: SamplingParams,
        end_ids: frozenset[int],
        timeout_s: float,
    ) -> AsyncGenerator[tuple[int, Drawn], None]:
        """Yield a sample's index and all of its tokens so far, each time it grows."""
        body = _generation(prompt, sampling, end_ids) | {"stream": True}
        with as_callers():
            async with aclosing(self.events("/generate", body, timeout_s)) as events:
                async for event in events:
                    yield int(event["index"]), self._drawn(event, prompt)

    def _drawn(self, answer: dict[str, Any], prompt: list[int]) -> Drawn:
        """Return a sample; an answer always has all of its tokens so far."""
        meta = answer["meta_info"]
        self._check_version(meta)
        if meta["prompt_tokens"] != len(prompt):
            raise EngineFault("SGLang read another number of token ids than were sent")
        reason = _finish_reason(meta["finish_reason"])
        ids, logprobs = answer["output_ids"], meta["output_token_logprobs"]
        if reason is None:  # what comes while more is drawn may be a step apart
            length = min(len(ids), len(logprobs))
            ids, logprobs = ids[:length], logprobs[:length]
        if [token_id for _, token_id, *_ in logprobs] != ids:
            raise EngineFault("SGLang's log-probabilities are of other tokens than it drew")
        tops = [_top(one) for one in (meta.get("output_top_logprobs") or ())[: len(ids)]]
        return Drawn(ids, [float(logprob) for logprob, *_ in logprobs], reason, tops)

    def _check_version(self, meta: dict[str, Any]) -> None:
        if meta["weight_version"] != self._weight_version:
            raise EngineFault(
                f"SGLang answered under weights {meta['weight_version']}, where "
                f"{self._weight_version} are served"
            )


def _finish_reason(finish: dict[str, Any] | None) -> FinishReason | None:
    if finish is None:
        return None
    if finish["type"] not in ("stop", "length"):
        message = f"SGLang gave a sample up: {finish.get('message') or finish['type']}"
        is_refusal = finish.get("status_code") == _BAD_REQUEST
        raise RequestRefused(message) if is_refusal else Unreachable(message)
    return FinishReason(finish["type"])


def _top(entries: list[list[Any]] | None) -> TopLogprobs:
    """Return the ids without excluded ids (minus infinity, or the least number)."""
    pairs = ((int(token_id), float(value)) for value, token_id, *_ in entries or ())
    return tuple(pair for pair in pairs if pair[1] > _EXCLUDED)


def _generation(prompt: list[int], sampling: SamplingParams, end_ids: frozenset[int]) -> Json:
    """Return a batch of a single prompt: with `n`, all samples would share a seed."""
    shared: Json = {
        "max_new_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stop": list(sampling.stop) or None,
        "stop_token_ids": sorted(end_ids),
    }
    shared |= _rules(sampling)
    return {
        "input_ids": [prompt] * sampling.n,
        "sampling_params": [
            shared | {"sampling_seed": _seed(sampling.seed, index)} for index in range(sampling.n)
        ],
        "return_logprob": True,
        "logprob_start_len": -1,
        "top_logprobs_num": sampling.top_logprobs,
    }


def _rules(sampling: SamplingParams) -> Json:
    """Return the parameters with other than default values, in SGLang's names."""
    names = {
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "logit_bias": "logit_bias",
        "ignore_eos": "ignore_eos",
        "min_tokens": "min_new_tokens",
    }
    given = sampling.model_dump(mode="json", exclude_defaults=True, include=set(names))
    return {names[name]: value for name, value in given.items()}


def _seed(seed: int | None, index: int) -> int:
    """Return a seed: with seeds in use, SGLang gives all unseeded requests the same seed."""
    if seed is None:
        return secrets.randbits(63)
    digest = hashlib.sha256(f"{seed}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
