"""Why a stage's command failed, by its exit code and the end of its log."""

import re
import signal
from collections.abc import Iterator

from assay_shared.runtime.processes import last_lines
from assay_trainer.pipelines.stage_folder import StageFolder

_LINES = 200
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
        "the disk is full: `assay prune --dry-run`, or fewer retention.checkpoints",
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
