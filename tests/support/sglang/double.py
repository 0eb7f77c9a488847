"""A double of `python -m sglang.launch_server`: its options, routes and answers, a tiny real model.

Follows the source of SGLang 0.5.23 for Assay's requests, and refuses everything else.
"""

import argparse
import asyncio
import hashlib
import json
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from tests.support.sglang.scheduler import Request as Sequence
from tests.support.sglang.scheduler import Scheduler

_OPEN = ("/health", "/ready", "/metrics")
_FUSED = {"q_proj": ("qkv_proj", 0), "k_proj": ("qkv_proj", 1), "v_proj": ("qkv_proj", 2)}
_FUSED |= {"gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1)}
_PARAMS = {
    "max_new_tokens": 128,
    "temperature": 1.0,
    "top_p": 1.0,
    "stop": None,
    "stop_token_ids": None,
    "sampling_seed": None,
    "top_k": -1,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "logit_bias": None,
    "ignore_eos": False,
    "min_new_tokens": 0,
}


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="launch_server", allow_abbrev=False)
    parser.add_argument("--config")
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--log-level-http")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--weight-version", default="default")
    parser.add_argument("--max-running-requests", type=int, default=256)
    parser.add_argument("--sampling-defaults", choices=["openai", "model"], default="model")
    parser.add_argument("--enable-metrics", action="store_true")
    parser.add_argument("--enable-deterministic-inference", action="store_true")
    parser.add_argument("--api-key")
    parser.add_argument("--context-length", type=int)
    parser.add_argument("--tp-size", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.config:
        written = json.loads(Path(options.config).read_text())
        merged = [part for key, value in written.items() for part in (f"--{key}", str(value))]
        at = arguments.index("--config")
        options = parser.parse_args(merged + arguments[:at] + arguments[at + 2 :])
    return options


class Double:
    """The work of SGLang's tokenizer manager."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.weight_version = options.weight_version
        self.scheduler = Scheduler(
            options.model_path,
            options.dtype,
            deterministic=options.enable_deterministic_inference,
            max_running=options.max_running_requests,
        )
        self.context_length = options.context_length or self.scheduler.context_length
        self.num_in_flight = 0
        self.idle = asyncio.Condition()

    async def between_steps(self, job: Callable[[], Any]) -> Any:
        """The scheduler's work between two batches."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def run() -> None:
            loop.call_soon_threadsafe(done.set_result, job())

        self.scheduler.submit(run)
        return await done

    def answer(self, sequence: Sequence, rid: str) -> dict[str, Any]:
        pairs = zip(sequence.logprobs, sequence.output_ids, strict=True)
        meta: dict[str, Any] = {
            "id": rid,
            "finish_reason": sequence.finish,
            "prompt_tokens": len(sequence.prompt),
            "weight_version": self.weight_version,
            "num_retractions": 0,
            "output_token_logprobs": [[logprob, token_id, None] for logprob, token_id in pairs],
            "reasoning_tokens": 0,
            "completion_tokens": len(sequence.output_ids),
            "cached_tokens": 0,
        }
        if sequence.prompt_logprobs is not None:
            prompt = zip(sequence.prompt_logprobs, sequence.prompt, strict=True)
            meta["input_token_logprobs"] = [[value, token_id, None] for value, token_id in prompt]
        if sequence.num_top:
            meta["output_top_logprobs"] = list(sequence.tops)
            meta["input_top_logprobs"] = sequence.prompt_tops
        text = self.scheduler.tokenizer.decode(sequence.output_ids, skip_special_tokens=True)
        return {"text": text, "output_ids": list(sequence.output_ids), "meta_info": meta}

    async def grow(
        self,
        prompt: list[int],
        params: dict[str, Any],
        *,
        with_prompt_logprobs: bool,
        num_top: int = 0,
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the whole answer so far, each time it has grown."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def grown() -> None:
            loop.call_soon_threadsafe(changed.set)

        sequence = Sequence(prompt, _normal(params), grown, with_prompt_logprobs, num_top)
        if len(prompt) + sequence.params["max_new_tokens"] > self.context_length:
            raise ValueError(
                "Requested token count exceeds the model's maximum context length of "
                f"{self.context_length} tokens."
            )
        rid = uuid.uuid4().hex
        self.num_in_flight += 1
        self.scheduler.submit(sequence)
        try:
            while True:
                await changed.wait()
                changed.clear()
                answer = self.answer(sequence, rid)
                yield answer
                if answer["meta_info"]["finish_reason"] is not None:
                    return
        finally:
            self.num_in_flight -= 1
            async with self.idle:
                self.idle.notify_all()
            if sequence.finish is None:  # its client went away
                sequence.params["max_new_tokens"] = 0

    def checksums(self) -> dict[str, str]:
        """Return the engine's tensors: fused, and embeddings filled up to 64 rows."""
        fused: dict[str, dict[int, torch.Tensor]] = {}
        for name, parameter in self.scheduler.model.named_parameters():
            parent, _, leaf = name.rpartition(".")
            path, _, module = parent.rpartition(".")
            whole, place = _FUSED.get(module, (module, 0))
            fused.setdefault(f"{path}.{whole}.{leaf}", {})[place] = parameter.detach()
        found = {}
        for name, parts in fused.items():
            tensor = torch.cat([parts[place] for place in sorted(parts)])
            if name.endswith("embed_tokens.weight"):
                zeros = torch.zeros(-len(tensor) % 64, tensor.shape[1], dtype=tensor.dtype)
                tensor = torch.cat([tensor, zeros])
            content = tensor.contiguous().view(torch.uint8).numpy()
            found[name] = hashlib.sha256(content.tobytes()).hexdigest()[:16]
        return found


def _normal(params: dict[str, Any]) -> dict[str, Any]:
    unknown = params.keys() - _PARAMS.keys()
    if unknown:
        raise ValueError(f"Unexpected keyword argument '{min(unknown)}'")
    merged = _PARAMS | {key: value for key, value in params.items() if value is not None}
    if not 0 < merged["top_p"] <= 1:
        raise ValueError(f"top_p must be in (0, 1], got {merged['top_p']}.")
    return merged | {
        "stop": list(merged["stop"] or ()),
        "stop_token_ids": set(merged["stop_token_ids"] or ()),
    }


def create_double(options: argparse.Namespace) -> FastAPI:
    app, double = FastAPI(), Double(options)

    @app.middleware("http")
    async def check_key(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        is_open = request.url.path.startswith(_OPEN)
        if options.api_key and not is_open and not secrets.compare_digest(given, options.api_key):
            return JSONResponse({"error": "Unauthorized"}, status_code=401)
        return await call_next(request)

    _add_generation(app, double)
    _add_chat(app, double)
    _add_control(app, double)
    return app


def _add_generation(app: FastAPI, double: Double) -> None:
    @app.get("/health")
    @app.get("/health_generate")
    async def health() -> Response:
        one = {"max_new_tokens": 1, "temperature": 0.0}
        async for _ in double.grow([0], one, with_prompt_logprobs=False):
            break
        return Response()

    @app.post("/generate", response_model=None)
    async def generate(body: dict[str, Any]) -> Response:
        prompts, params = body["input_ids"], body["sampling_params"]
        is_batch = isinstance(prompts[0], list)
        pairs = list(zip(prompts, params, strict=True)) if is_batch else [(prompts, params)]
        with_prompt = body.get("logprob_start_len", -1) == 0
        asked = {"with_prompt_logprobs": with_prompt, "num_top": body.get("top_logprobs_num", 0)}
        growing = [double.grow(*pair, **asked) for pair in pairs]
        if body.get("stream"):
            return StreamingResponse(_events(growing), media_type="text/event-stream")
        try:
            answers = await asyncio.gather(*(_last(each) for each in growing))
        except ValueError as error:
            return JSONResponse({"error": {"message": str(error)}}, status_code=400)
        return JSONResponse(answers if is_batch else answers[0])


def _add_chat(app: FastAPI, double: Double) -> None:
    @app.post("/v1/chat/completions")
    async def chat(body: dict[str, Any]) -> JSONResponse:
        tokenizer = double.scheduler.tokenizer
        text = tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, tokenize=False
        )
        params = {
            "max_new_tokens": body["max_tokens"],
            "temperature": body.get("temperature"),
            "top_p": body.get("top_p"),
            "stop": body.get("stop"),
            "sampling_seed": body.get("seed"),
        }
        prompt = tokenizer.encode(text, add_special_tokens=False)
        try:
            answer = await _last(double.grow(prompt, params, with_prompt_logprobs=False))
        except ValueError as error:
            refused = {"object": "error", "message": str(error), "type": "BadRequestError"}
            return JSONResponse(refused | {"param": None, "code": 400}, status_code=400)
        facts = answer["meta_info"]
        message = {"role": "assistant", "content": answer["text"], "reasoning_content": None}
        choice = {"index": 0, "message": message, "finish_reason": facts["finish_reason"]["type"]}
        counts = {name: facts[name] for name in ("prompt_tokens", "completion_tokens")}
        model = body["model"]
        return JSONResponse(
            {"id": facts["id"], "model": model, "choices": [choice], "usage": counts}
        )


async def _last(growing: AsyncIterator[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    async for answer in growing:  # noqa: B007  # the last one is the answer
        pass
    return answer


async def _events(growing: list[AsyncIterator[dict[str, Any]]]) -> AsyncIterator[bytes]:
    events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def forward(index: int, each: AsyncIterator[dict[str, Any]]) -> None:
        async for answer in each:
            events.put_nowait(answer | {"index": index})
        events.put_nowait(None)

    tasks = [asyncio.create_task(forward(index, each)) for index, each in enumerate(growing)]
    try:
        left = len(tasks)
        while left:
            event = await events.get()
            left -= event is None
            if event is not None:
                yield b"data: " + json.dumps(event).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"
    finally:
        for task in tasks:
            task.cancel()


def _add_control(app: FastAPI, double: Double) -> None:
    options = double.options

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        card = {"id": options.served_model_name, "max_model_len": double.context_length}
        return {"object": "list", "data": [card]}

    @app.get("/server_info")
    async def server_info() -> dict[str, Any]:
        kept = {key: value for key, value in vars(options).items() if key != "api_key"}
        sizes = {"tp_size": options.tp_size, "pp_size": 1, "dp_size": 1}
        return kept | sizes | {"device": "cpu", "version": "0.5.23", "internal_states": []}

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:
        label = f'{{model_name="{options.served_model_name}"}}'
        return PlainTextResponse(
            "# HELP sglang:num_running_reqs The number of running requests.\n"
            "# TYPE sglang:num_running_reqs gauge\n"
            f"sglang:num_running_reqs{label} {double.num_in_flight}\n"
            "# HELP sglang:generation_tokens_total Number of generation tokens processed.\n"
            "# TYPE sglang:generation_tokens_total counter\n"
            f"sglang:generation_tokens_total{label} {double.scheduler.num_tokens}\n"
            "# HELP sglang:token_usage The token usage.\n"
            "# TYPE sglang:token_usage gauge\n"
            f"sglang:token_usage{label} 0.25\n"
        )

    @app.post("/update_weights_from_disk")
    async def update_weights(body: dict[str, Any]) -> JSONResponse:
        if body.get("abort_all_requests"):
            await double.between_steps(double.scheduler.abort_all)
        async with double.idle:  # the writer's lock
            await double.idle.wait_for(lambda: double.num_in_flight == 0)
        success, message = await double.between_steps(
            lambda: double.scheduler.update_weights(body["model_path"])
        )
        if success and body.get("weight_version") is not None:
            double.weight_version = body["weight_version"]
            message += f" Weight version updated to {double.weight_version}."
        content = {"success": success, "message": message, "num_paused_requests": 0}
        return JSONResponse(content, status_code=200 if success else 400)

    @app.post("/weights_checker")
    async def weights_checker(body: dict[str, Any]) -> JSONResponse:
        if body["action"] != "checksum":
            return JSONResponse({"success": False, "message": "Unsupported"}, status_code=400)
        checksums = await double.between_steps(double.checksums)
        rank = {"checksums": checksums, "parallelism_info": {"tp_rank": 0, "tp_size": 1}}
        return JSONResponse({"success": True, "message": "Success.", "ranks": [rank]})


def main(arguments: list[str]) -> None:
    options = read_options(arguments)
    app = create_double(options)
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")
