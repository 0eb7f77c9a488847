"""A double of vLLM's API server: Assay's requests, a tiny real model, and Assay's own worker code.

Weights come by the worker's methods of `services/inference`, so direct transfers are real. It
refuses what Assay does not ask for.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from safetensors.torch import load_file
from vllm_worker import WorkerExtension  # type: ignore[import-not-found]  # on the child's path

from tests.support.sglang.double import Double

CPU = torch.device("cpu")


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="api_server", allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--uds", required=True)
    parser.add_argument("--disable-uvicorn-access-log", action="store_true")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--generation-config")
    parser.add_argument("--logprobs-mode")
    parser.add_argument("--worker-extension-cls")
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--max-model-len", type=int)
    return parser.parse_args(arguments)


class Worker(WorkerExtension):  # type: ignore[misc]  # of the child's path
    """What the extension sees of vLLM's worker."""

    def __init__(self, model: torch.nn.Module, dtype: str) -> None:
        config = SimpleNamespace(dtype=f"torch.{dtype}")
        self.model_runner = SimpleNamespace(get_model=lambda: model, model_config=config)
        self._model = model
        self._dtype = dtype
        self.device, self.rank = CPU, 0

    def assay_prepare(self) -> dict[str, Any]:
        """Leave the sampler as it is: this one already gives what is asked of it."""
        return {"dtype": self._dtype, "device": "cpu"}

    def assay_end_reload(self) -> dict[str, Any]:
        return {}

    def reload_weights(
        self,
        weights_iterator: Iterator[tuple[str, torch.Tensor]] | None = None,
        weights_path: str | None = None,
    ) -> None:
        held = dict(self._model.named_parameters())
        with torch.inference_mode():
            for name, tensor in weights_iterator or _stored(weights_path):
                held[name].copy_(tensor)


def _stored(folder: str | None) -> Iterator[tuple[str, torch.Tensor]]:
    assert folder is not None
    for file in sorted(Path(folder).glob("*.safetensors")):
        yield from load_file(file).items()


class Server:
    """One engine behind its socket."""

    def __init__(self, options: argparse.Namespace) -> None:
        dtype = "float32" if options.dtype == "auto" else options.dtype
        self.double = Double(
            argparse.Namespace(
                model_path=options.model,
                dtype=dtype,
                weight_version="",
                max_running_requests=options.max_num_seqs,
                enable_deterministic_inference=True,
                context_length=options.max_model_len,
            )
        )
        self.worker = Worker(self.double.scheduler.model, dtype)
        self._is_paused = False
        self._num_pauses = 0
        self._changed = asyncio.Condition()

    async def call(self, body: dict[str, Any]) -> dict[str, Any]:
        method = getattr(self.worker, body["method"])

        def run() -> Any:
            try:
                return method(**body["kwargs"])
            except Exception as error:  # noqa: BLE001  # vLLM answers with 500
                return error

        result = await self.double.between_steps(run)
        if isinstance(result, Exception):
            raise result
        return {"results": [result]}

    async def pause(self) -> None:
        """Give up all sequences, with those that wait since an earlier pause."""
        async with self._changed:
            self._is_paused = True
            self._num_pauses += 1
            self._changed.notify_all()
        await self.double.between_steps(self.double.scheduler.abort_all)

    async def resume(self) -> None:
        async with self._changed:
            self._is_paused = False
            self._changed.notify_all()

    async def samples(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Yield each sample's choice with all of its tokens so far, whenever it has grown."""
        num_pauses = self._num_pauses
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self._is_paused or self._num_pauses > num_pauses
            )
        for index in range(body.get("n", 1)):  # one after the other is enough for tests
            if self._num_pauses > num_pauses:
                yield _given_up(index, body["prompt"])
                continue
            async for choice in self._grow(body, index):
                yield choice

    async def _grow(self, body: dict[str, Any], index: int) -> AsyncIterator[dict[str, Any]]:
        seed = body.get("seed")
        params = {
            "max_new_tokens": body["max_tokens"],
            "temperature": body["temperature"],
            "top_p": body.get("top_p", 1.0),
            "stop": body.get("stop"),
            "stop_token_ids": body.get("stop_token_ids"),
            "sampling_seed": None if seed is None else (seed + index) % 2**62,
        }
        reads = body.get("prompt_logprobs") is not None
        async for answer in self.double.grow(body["prompt"], params, with_prompt_logprobs=reads):
            yield _choice(index, body["prompt"], answer, reads=reads)


def _choice(
    index: int, prompt: list[int], answer: dict[str, Any], *, reads: bool
) -> dict[str, Any]:
    meta = answer["meta_info"]
    reason = meta["finish_reason"]
    choice: dict[str, Any] = {
        "index": index,
        "prompt_token_ids": prompt,
        "token_ids": answer["output_ids"],
        "logprobs": {"token_logprobs": [one for one, _, _ in meta["output_token_logprobs"]]},
        "finish_reason": None if reason is None else reason["type"],
    }
    if reads and "input_token_logprobs" in meta:
        choice["prompt_logprobs"] = [
            None if value is None else {str(token_id): {"logprob": value, "rank": 1}}
            for value, token_id, _ in meta["input_token_logprobs"]
        ]
    return choice


def _given_up(index: int, prompt: list[int]) -> dict[str, Any]:
    return {
        "index": index,
        "prompt_token_ids": prompt,
        "token_ids": [],
        "logprobs": {"token_logprobs": []},
        "finish_reason": "abort",
    }


def create_double(options: argparse.Namespace) -> FastAPI:
    app, server = FastAPI(), Server(options)
    _add_control(app, server)

    @app.post("/v1/completions", response_model=None)
    async def completions(body: dict[str, Any]) -> Any:
        if body.get("stream"):
            return StreamingResponse(_events(server, body), media_type="text/event-stream")
        last: dict[int, dict[str, Any]] = {}
        try:
            async for choice in server.samples(body):
                last[choice["index"]] = choice
        except ValueError as error:
            return JSONResponse({"error": {"message": str(error)}}, status_code=400)
        return {"choices": list(last.values())}

    return app


async def _events(server: Server, body: dict[str, Any]) -> AsyncIterator[bytes]:
    """Yield each sample's new tokens."""
    num_sent: dict[int, int] = {}
    async for choice in server.samples(body):
        start = num_sent.get(choice["index"], 0)
        num_sent[choice["index"]] = len(choice["token_ids"])
        logprobs = {"token_logprobs": choice["logprobs"]["token_logprobs"][start:]}
        part = choice | {"token_ids": choice["token_ids"][start:], "logprobs": logprobs}
        yield b"data: " + json.dumps({"choices": [part]}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def _add_control(app: FastAPI, server: Server) -> None:
    @app.get("/health")
    async def health() -> PlainTextResponse:
        return PlainTextResponse("")

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(
            "# HELP vllm:kv_cache_usage_perc The used share.\n"
            "# TYPE vllm:kv_cache_usage_perc gauge\n"
            "vllm:kv_cache_usage_perc 0.25\n"
        )

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"data": [{"id": "policy", "max_model_len": server.double.context_length}]}

    @app.post("/collective_rpc")
    async def collective_rpc(body: dict[str, Any]) -> dict[str, Any]:
        return await server.call(body)

    @app.post("/pause")
    async def pause(mode: str) -> None:
        assert mode == "abort"
        await server.pause()

    @app.post("/resume")
    async def resume() -> None:
        await server.resume()

    @app.post("/reset_prefix_cache")
    async def reset_prefix_cache() -> dict[str, bool]:
        return {"success": True}


def main(arguments: list[str]) -> None:
    options = read_options(arguments)
    uvicorn.run(create_double(options), uds=options.uds, log_level="warning")
