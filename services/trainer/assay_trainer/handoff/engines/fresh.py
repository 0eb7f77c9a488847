"""A folder loaded by plain transformers, in a separate process, offline."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from assay_shared.errors import InfrastructureError
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_trainer.handoff.engines.answers import FolderAccount, HandoffPrompt

_CHILD = Path(__file__).with_name("transformers_child.py")
_PASSED_ON = (
    *("PATH", "LD_LIBRARY_PATH", "TMPDIR", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LANG"),
    "PYTORCH_CUDA_ALLOC_CONF",
)
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # OpenMP threads that spin while they wait take cores from other processes.
    "GOMP_SPINCOUNT": "1000",
}
_MAX_SAID = 600


class NotLoaded(InfrastructureError):
    """Transformers could not load a folder, or did not answer in time."""


@dataclass(frozen=True)
class AskedFolder:
    """A folder to be loaded, with its tokenizer and, of an adapter, the adapter's own folder."""

    folder: Path
    tokenizer: Path
    adapter: Path | None = None
    #: Load the weights as they are, without the quantization that a training left in config.json.
    unquantized: bool = False


@dataclass(frozen=True)
class Asking:
    """What is asked of every engine."""

    prompts: Sequence[HandoffPrompt]
    max_tokens: int
    device: str | None
    limit_s: float


def ask_transformers(
    asked: AskedFolder, asking: Asking, on_answer: Callable[[], None] = lambda: None
) -> FolderAccount:
    """Return what transformers finds in a folder, and its greedy answers.

    The process has an empty home, no variables of this one but for paths, and no network.

    Raises:
        NotLoaded: it failed, or did not end in time.
    """
    with TemporaryFolder("assay-handoff-") as home:
        job, output, log = (home / name for name in ("job.json", "found.json", "log"))
        job.write_text(
            json.dumps(
                {
                    "folder": str(asked.folder.resolve()),
                    "ends": str(asked.folder.resolve()),
                    "tokenizer": str(asked.tokenizer.resolve()),
                    "adapter": str(asked.adapter.resolve()) if asked.adapter else None,
                    "unquantized": asked.unquantized,
                    "prompts": [prompt.turns for prompt in asking.prompts],
                    "max_tokens": asking.max_tokens,
                    "device": asking.device,
                }
            )
        )
        _run([str(job), str(output)], home, log, asking.limit_s, on_answer)
        try:
            return FolderAccount.model_validate_json(output.read_bytes())
        except (OSError, ValidationError) as error:
            raise NotLoaded(f"transformers said nothing usable: {error!s:.300}") from None


def _run(
    arguments: list[str], home: Path, log: Path, limit_s: float, on_answer: Callable[[], None]
) -> None:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-I", "-W", "ignore", str(_CHILD), *arguments],
            env=environment | _OFFLINE | {"HOME": str(home), "HF_HOME": str(home / "hub")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=home,
        )
    assert process.stdout is not None
    reader = threading.Thread(target=_count, args=(process.stdout, on_answer), daemon=True)
    reader.start()
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise NotLoaded(f"transformers does not end within {limit_s:.0f} s") from None
    finally:
        process.kill()
        process.wait()
        reader.join(5.0)
        process.stdout.close()
    if status != 0:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise NotLoaded((lines[-1] if lines else f"it ended with {status}")[:_MAX_SAID])


def _count(output: IO[bytes], on_answer: Callable[[], None]) -> None:
    for line in output:
        if line.startswith(b"answered"):
            on_answer()
