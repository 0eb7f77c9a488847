"""How SGLang's server is started: its version, its command line, its environment."""

import json
import secrets
import shlex
import socket
import sys
from pathlib import Path

from assay_inference.engines.child.process import (
    ServerProcess,
    SupportedVersions,
    inherited_environment,
    new_folder,
)
from assay_inference.settings import InferenceSettings
from assay_inference.weights.checkpoint import Checkpoint

_HOST = "127.0.0.1"
_SUPPORTED = SupportedVersions(
    name="SGLang",
    distributions=("sglang",),
    oldest=(0, 5, 16),
    newest=(0, 5, 23),
    field="ASSAY_INFERENCE_SGLANG_PYTHON",
)
_ENVIRONMENT = {
    # Else log-probabilities would be those at temperature 1, whatever was drawn at.
    "SGLANG_RETURN_ORIGINAL_LOGPROB": "0",
    # Else a header could change a request.
    "SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES": "0",
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
}


def python(settings: InferenceSettings) -> str:
    """Return the path of SGLang's interpreter."""
    return str(settings.inference_sglang_python or sys.executable)


def check_version(settings: InferenceSettings) -> str:
    """Return the version of SGLang in its environment.

    Raises:
        ConfigError: SGLang is missing, or its version is not supported.
    """
    return _SUPPORTED.check(python(settings))


class SglangProcess(ServerProcess):
    """It listens on `url`, on loopback, and answers only whoever has its `api_key`."""

    def __init__(self, settings: InferenceSettings, checkpoint: Checkpoint) -> None:
        folder = new_folder("sglang")
        port = _free_port()
        self.url = f"http://{_HOST}:{port}"
        self.api_key = secrets.token_hex(32)  # never begins like an option
        # Command lines are seen by every user of the machine, this file by its own alone.
        secret = folder.path / "secret.yaml"
        secret.write_text(json.dumps({"api-key": self.api_key}))
        command = _command(settings, checkpoint, secret, port)
        super().__init__(folder, command, _environment(folder.path, settings))


def _command(
    settings: InferenceSettings, checkpoint: Checkpoint, secret: Path, port: int
) -> list[str]:
    """Return the command; the settings' arguments come last and win."""
    seeds = ["--enable-deterministic-inference"] if settings.inference_sglang_seeds else []
    return [
        *(python(settings), "-m", "sglang.launch_server", "--config", str(secret)),
        *("--model-path", str(checkpoint.folder.resolve()), "--served-model-name", "policy"),
        *("--host", _HOST, "--port", str(port), "--log-level-http", "warning"),
        *("--dtype", checkpoint.dtype, "--weight-version", checkpoint.policy.digest),
        *("--max-running-requests", str(settings.inference_max_sequences)),
        # A checkpoint's own sampling defaults (top-k, penalties) would change what is asked for.
        *("--sampling-defaults", "openai", "--enable-metrics", *seeds),
        *shlex.split(settings.inference_sglang_arguments),
    ]


def _environment(folder: Path, settings: InferenceSettings) -> dict[str, str]:
    """Return the variables; SGLang's processes exchange pickles over sockets in TMPDIR."""
    return inherited_environment(settings) | _ENVIRONMENT | {"TMPDIR": str(folder)}


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as free:
        return int(free.getsockname()[1])
