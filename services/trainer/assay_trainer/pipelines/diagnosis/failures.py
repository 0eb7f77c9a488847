"""Why a stage's command failed, by its exit code and the end of its log."""

import errno
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from assay_shared.runtime.processes import last_lines
from assay_trainer.pipelines.stage_folder import StageFolder

_LINES = 200
#: With less room than this, a log on the disk may lack its last words.
_FULL_BYTES = 2**20
_DISK_IS_FULL = (
    "the disk is full: `assay prune --dry-run`, or fewer retention.checkpoints; then the same "
    "command resumes"
)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
#: A sign in the log, and what it means; the first that fits counts.
_SIGNS = (
    (
        r"out of memory|OutOfMemoryError|can't allocate memory|MemoryError",
        "out of memory: lower sft.micro_batch_size, dpo.micro_batch_size or grpo.tokens_per_pack "
        "(half of it halves the activations), then policy.lora, then policy.lora.nf4; "
        "`assay train FILE --plan` shows what each part needs",
    ),
    (
        r"No space left on device|disk is full",
        _DISK_IS_FULL,
    ),
    (
        r"no inference service at|Connection refused|nobody listens|is not ready",
        "a service is down: `make up` or `assay up`, and `assay doctor` says which",
    ),
    (
        r"held-out tasks are among the training tasks|have leaked",
        "held-out tasks are among the training tasks: `assay leaks` shows them; take them out of "
        "the training rows, by `assay data import --against`",
    ),
    (
        r"not finite|NaN|nan loss",
        "the loss is not finite: a lower learning rate, more warmup_steps, or other rows",
    ),
    (
        r"429|Overloaded|retry budget",
        "services were overloaded: more sandbox slots or inference replicas, or lower concurrency",
    ),
    (
        r"too few groups|rewards are equal|signal_check",
        "samples of a group earn equal rewards: train SFT for longer, or take easier tasks",
    ),
)


def why_it_failed(folder: StageFolder, exit_code: int) -> Iterator[str]:
    """Yield advice by the end of the stage's log."""
    if exit_code in _KILLED:
        yield (
            "the system killed it, in most cases because the machine's memory was full: fewer "
            "workers, a smaller micro_batch_size, or a machine with more memory"
        )
    log = "\n".join(last_lines(folder.log, _LINES))
    for sign, told in _SIGNS:
        if re.search(sign, log):
            yield told
            return
    if shutil.disk_usage(folder.path).free < _FULL_BYTES:
        yield _DISK_IS_FULL


def told_os_error(error: OSError, place: Path) -> tuple[str, str]:
    """Return an error of the system with its path, else with `place`, and what to do about it."""
    told = f"{error.filename or place}: {error.strerror or error}"
    return told, _DISK_IS_FULL if error.errno in _NO_ROOM else "the same command resumes"
