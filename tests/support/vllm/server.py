"""A real vLLM server with a tiny model of random weights."""

import os
from pathlib import Path

import httpx

from assay_shared.runtime.processes import end, last_lines, spawn
from assay_trainer.config import NewPolicyConfig
from assay_trainer.learner.network.model import create_policy
from assay_trainer.weights.folder import publish_policy
from tests.conftest import wait_until
from tests.support.ports import free_port

MODEL = "tiny"
START_TIMEOUT_S = 240.0
#: Heads of 64, the least that vLLM's attention takes everywhere, and room for a judge's prompt.
_TINY = NewPolicyConfig(
    vocabulary_size=512,
    hidden_size=128,
    intermediate_size=256,
    num_layers=2,
    num_heads=2,
    context_length=4096,
)
_OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def publish_model(folder: Path) -> None:
    """As `folder`, with a tokenizer of short pieces."""
    texts = (f"Is {n} the answer to {n} + {n}? Say CORRECT or INCORRECT." for n in range(100))
    model, tokenizer = create_policy(_TINY, texts, seed=0)
    publish_policy(model, tokenizer, folder)


class VllmServer:
    """Serves a new tiny model; its files and log are in `folder`."""

    def __init__(self, python: str, folder: Path) -> None:
        publish_model(folder / "model")
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "vllm.log"
        self._process = spawn(
            [
                *(python, "-m", "vllm.entrypoints.openai.api_server"),
                *("--model", str(folder / "model"), "--served-model-name", MODEL),
                *("--host", "127.0.0.1", "--port", str(port), "--enforce-eager"),
                *("--max-model-len", str(_TINY.context_length)),
                # Random weights would else fill every gap of the JSON with spaces to the limit.
                *("--structured-outputs-config.backend", "xgrammar"),
                *("--structured-outputs-config.disable_any_whitespace", "true"),
            ],
            log=self._log,
            environment=os.environ | _OFFLINE | {"VLLM_CPU_KVCACHE_SPACE": "1"},
        )
        try:
            wait_until(self._is_ready, "vLLM to start", START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, "\n".join(last_lines(self._log, 30))
        try:
            return httpx.get(f"{self.url}/health", timeout=5).is_success
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        end([self._process], grace_s=20)
