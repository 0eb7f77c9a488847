"""SGLang's scheduler and sampler on a tiny real model: the double's engine.

Follows the source of SGLang 0.5.23: the order of the finish checks, the sampler's
log-probabilities (of the softmax at the temperature, before top-p), Gumbel noise by seed and
position, and 42 without a seed.
"""

import os
import queue
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

#: Names a file; while that exists, an update leaves the tensor that it names as it was.
KEEPS_OLD = "SGLANG_DOUBLE_KEEPS_OLD"
_EPSILON = 1e-6
_NO_SEED = 42
_IDLE_S = 0.02


@dataclass
class Request:
    """A sequence; `changed` is called on the engine's thread after each of its tokens."""

    prompt: list[int]
    params: dict[str, Any]
    changed: Callable[[], None]
    with_prompt_logprobs: bool = False
    num_top: int = 0
    tops: list[list[list[Any]]] = field(default_factory=list)
    prompt_tops: list[list[list[Any]] | None] | None = None
    output_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: list[float | None] | None = None
    finish: dict[str, Any] | None = None
    cache: Any = None

    @property
    def ids(self) -> list[int]:
        return self.prompt + self.output_ids


class Scheduler:
    """A single thread samples; changes of the weights run between two of its steps."""

    def __init__(self, folder: str, dtype: str, *, deterministic: bool, max_running: int) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        self.model.eval()
        self.context_length = int(self.model.config.max_position_embeddings)
        self.num_tokens = 0
        self._deterministic = deterministic
        self._max_running = max_running
        self._inbox: queue.Queue[Request | Callable[[], None]] = queue.Queue()
        self._waiting: list[Request] = []
        self._running: list[Request] = []
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, job: "Request | Callable[[], None]") -> None:
        self._inbox.put(job)

    def abort_all(self) -> None:
        for request in (*self._waiting, *self._running):
            request.finish = {"type": "abort", "message": "Abort", "status_code": None}
            request.changed()
        self._waiting, self._running = [], []

    def update_weights(self, folder: str) -> tuple[bool, str]:
        """On a fault, SGLang loads from the same new folder again, and dies of a second fault."""
        try:
            self._load(folder)
        except (OSError, SafetensorError, RuntimeError) as error:
            try:
                self._load(folder)
            except (OSError, SafetensorError, RuntimeError):
                os.kill(os.getpid(), signal.SIGKILL)
            return False, f"Failed to update weights: {error}.\nRolling back to original weights."
        return True, "Succeeded to update model weights."

    def _load(self, folder: str) -> None:
        marker = os.environ.get(KEEPS_OLD)
        kept = Path(marker).read_text() if marker and Path(marker).exists() else None
        held = dict(self.model.named_parameters())
        with torch.inference_mode():
            if not list(Path(folder).glob("*.safetensors")):
                raise OSError(f"Cannot find any model weights with `{folder}`")
            for file in sorted(Path(folder).glob("*.safetensors")):
                for name, tensor in load_file(file).items():
                    if name in held and name != kept:
                        held[name].copy_(tensor)

    # On the thread.

    def _run(self) -> None:
        torch.set_num_threads(1)
        with torch.inference_mode():
            while True:
                self._take_in()
                if self._running:
                    self._step()

    def _take_in(self) -> None:
        block = not self._running
        while True:
            try:
                job = self._inbox.get(timeout=_IDLE_S) if block else self._inbox.get_nowait()
            except queue.Empty:
                break
            block = False
            if isinstance(job, Request):
                self._waiting.append(job)
            else:
                job()
        room = self._max_running - len(self._running)
        self._running += self._waiting[:room]
        self._waiting = self._waiting[room:]

    def _step(self) -> None:
        """Sample each row alone: its numbers do not depend on the other rows."""
        for request in self._running:
            new = request.ids if request.cache is None else request.output_ids[-1:]
            out = self.model(torch.tensor([new]), past_key_values=request.cache, use_cache=True)
            logits_TV = out.logits[0].float()
            if request.with_prompt_logprobs and request.cache is None:
                before_TV = logits_TV[:-1].log_softmax(dim=-1)
                after_T1 = torch.tensor(request.prompt[1:])[:, None]
                request.prompt_logprobs = [None, *before_TV.gather(1, after_T1)[:, 0].tolist()]
                request.prompt_tops = [None, *(_top(row_V, request.num_top) for row_V in before_TV)]
            request.cache = out.past_key_values
            token_id, logprob = self._sample(logits_TV[-1], request)
            request.output_ids.append(token_id)
            request.logprobs.append(logprob)
            request.finish = self._finish(request)
            self.num_tokens += 1
            request.changed()
        self._running = [request for request in self._running if request.finish is None]

    def _sample(self, logits_V: torch.Tensor, request: Request) -> tuple[int, float]:
        logits_V = self._penalised(logits_V, request)
        temperature = request.params["temperature"]
        greedy = temperature < _EPSILON
        probs_V = (logits_V / (1.0 if greedy else temperature)).softmax(dim=-1)
        logprobs_V = probs_V.log()
        request.tops.append(_top(logprobs_V, request.num_top))
        if greedy:
            token_id = int(probs_V.argmax())
        else:
            sorted_V, order_V = probs_V.sort(descending=True)
            before_V = sorted_V.cumsum(0) - sorted_V
            if request.params["top_k"] > 0:
                sorted_V[request.params["top_k"] :] = 0.0
            sorted_V[before_V > request.params["top_p"]] = 0.0
            if request.params["min_p"] > 0:
                assert not self._deterministic, "With sampling seed, results would be wrong"
                sorted_V[sorted_V < sorted_V[0] * request.params["min_p"]] = 0.0
            token_id = int(order_V[self._draw(sorted_V, request)])
        return token_id, float(logprobs_V[token_id])

    def _penalised(self, logits_V: torch.Tensor, request: Request) -> torch.Tensor:
        """Apply the penalties of the sampled tokens, and then the bias."""
        params, logits_V = request.params, logits_V.clone()
        for token_id in set(request.output_ids):
            count = request.output_ids.count(token_id)
            logits_V[token_id] -= params["frequency_penalty"] * count + params["presence_penalty"]
        if len(request.output_ids) < params["min_new_tokens"]:
            logits_V[[self.tokenizer.eos_token_id, *params["stop_token_ids"]]] = -torch.inf
        for token_id, bias in (params["logit_bias"] or {}).items():
            logits_V[int(token_id)] += bias
        return logits_V

    def _draw(self, weights_V: torch.Tensor, request: Request) -> int:
        if not self._deterministic:
            return int(torch.multinomial(weights_V, 1))
        seed = request.params.get("sampling_seed")
        position = len(request.ids) - 1
        noise_V = gumbel(_NO_SEED if seed is None else seed, position, len(weights_V))
        return int((noise_V + weights_V.double().log()).argmax())

    def _finish(self, request: Request) -> dict[str, Any] | None:
        params = request.params
        if len(request.output_ids) >= params["max_new_tokens"]:
            return {"type": "length", "length": len(request.output_ids)}
        last = request.output_ids[-1]
        ends = {*params["stop_token_ids"], self.tokenizer.eos_token_id}
        if last in ends and not params["ignore_eos"]:
            return {"type": "stop", "matched": last}
        longest = max((len(stop) for stop in params["stop"]), default=0)
        tail = self.tokenizer.decode(request.output_ids[-longest - 1 :]) if longest else ""
        for stop in params["stop"]:
            if stop in tail:
                return {"type": "stop", "matched": stop}
        return None


def _top(logprobs_V: torch.Tensor, number: int) -> list[list[Any]]:
    values, ids = logprobs_V.topk(number)
    return [
        [value, token_id, None]
        for value, token_id in zip(values.tolist(), ids.tolist(), strict=True)
    ]


def gumbel(seed: int, position: int, num_columns: int) -> torch.Tensor:
    """float64 noise of each column: MurmurHash3 of seed, position and column."""
    columns = torch.arange(num_columns, dtype=torch.int64)
    state = torch.zeros(num_columns, dtype=torch.int64)
    for block in (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, position, columns):
        mixed = (_rotated((torch.as_tensor(block) * 0xCC9E2D51) & _WORD, 15) * 0x1B873593) & _WORD
        state = (_rotated(state ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    state = state ^ 16
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _WORD
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _WORD
    uniform = (state ^ (state >> 16)).double() / _WORD
    return -(-uniform.log().clamp(torch.finfo(torch.float64).min, -(2.0**-32))).log()


_WORD = 0xFFFFFFFF


def _rotated(words: torch.Tensor, bits: int) -> torch.Tensor:
    return ((words << bits) | (words >> (32 - bits))) & _WORD
