"""Memory of the transformers engine: free bytes, the cache's cost, and its limits."""

import errno
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from assay_shared.errors import InvalidInput
from assay_shared.types import SamplingParams

_CGROUPS, _OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
#: A step makes, of each row's logits, copies in single and double precision, and sorts them.
_BYTES_PER_LOGIT = 48
#: Share of the memory left after a second version of the weights.
_CACHE_SHARE = 0.5
_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory")


@dataclass(frozen=True)
class CacheCost:
    """Bytes of a row in the cache: per token, and fixed."""

    per_token: int
    per_row: int

    def of(self, num_rows: int, num_tokens: int) -> int:
        """Return the bytes of rows padded to a number of tokens."""
        return num_rows * (self.per_row + num_tokens * self.per_token)


@dataclass(frozen=True)
class Room:
    """Memory for the running rows."""

    cost: CacheCost
    max_bytes: int
    max_rows: int

    @property
    def max_tokens(self) -> int:
        """Return the most tokens of a single row in the cache: prompt and answer."""
        return max(0, self.max_bytes - self.cost.per_row) // self.cost.per_token

    def num_fitting(self, num_rows: int, num_tokens: int) -> int:
        """Return the number of rows that fit with `num_rows` others, at most `num_tokens` long."""
        num = min(self.max_rows, self.max_bytes // self.cost.of(1, num_tokens))
        return max(0, num - num_rows)

    def check_fits(self, num_prompt_tokens: int, sampling: SamplingParams) -> None:
        """Check that a sample fits; several samples may be sampled in parts.

        Raises:
            InvalidInput: not even a single sample fits.
        """
        needed = self.cost.of(1, num_prompt_tokens + sampling.max_tokens)
        if needed <= self.max_bytes:
            return
        left = self.max_tokens - num_prompt_tokens
        raise InvalidInput(
            f"a sample of {num_prompt_tokens} + {sampling.max_tokens} tokens needs {needed:,} "
            f"bytes of cache, and {self.max_bytes:,} are available",
            field="sampling.max_tokens",
            hint=f"up to {left} fit after this prompt, for any n"
            if left > 0
            else f"prompt and max_tokens together may have {self.max_tokens} tokens",
        )


def cost_of(network: PreTrainedModel) -> CacheCost:
    """Measure the cache of a network by reading a single token."""
    cache = DynamicCache(config=network.config)
    ids_11 = torch.zeros(1, 1, dtype=torch.long, device=network.device)
    with torch.inference_mode():
        logits = network(input_ids=ids_11, past_key_values=cache, use_cache=True).logits
    layers = cast(list[DynamicLayer], cache.layers)  # `open_model` refuses other kinds
    states = [s for layer in layers for s in (layer.keys, layer.values) if s is not None]
    largest = max(state.nbytes for state in states)
    num_heads = int(getattr(network.config, "num_attention_heads", 1))
    copies = max(1, num_heads // states[0].shape[1])
    # A step copies one layer at a time: once to append, and once for each group of heads.
    per_token = sum(state.nbytes for state in states) + 2 * largest * (1 + copies)
    return CacheCost(per_token, per_row=int(logits.shape[-1]) * _BYTES_PER_LOGIT)


def default_cache_bytes(network: PreTrainedModel, device: torch.device) -> int:
    """Return half of the memory left after a second version of the weights."""
    weights = sum(parameter.nbytes for parameter in network.parameters())
    return max(0, int(_CACHE_SHARE * (free_bytes(device) - weights)))


def free_bytes(device: torch.device) -> int:
    """Return the free bytes of a GPU or of the machine.

    Of the machine: its available bytes, within the limits of the process's control groups and of
    its address space (`ulimit -v`).
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return max(
        0, min([_available(), *_left_in_cgroups(_CGROUPS, _OWN_CGROUP), *_left_of_address_space()])
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if the error, or its cause, reports a lack of memory."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return any(_says_so(cause) for cause in causes)


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    text = str(error).lower()
    return "bad_alloc" in text or any(words in text for words in _OUT_OF_MEMORY)


def _available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    kibibytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return int(kibibytes) * 1024


def _left_in_cgroups(root: Path, own: Path) -> Iterator[int]:
    """Yield the bytes left in each limited control group of this process.

    Args:
        root: the mount point of the groups.
        own: lists the groups of this process, as /proc/self/cgroup does.
    """
    try:
        path = own.read_text().rsplit("::", 1)[-1].strip().lstrip("/")
    except OSError:
        return
    around = (root / path, *(root / path).parents)
    groups = [group for group in around if group.is_relative_to(root)]
    limits = [(group / "memory.max", group / "memory.current") for group in groups]
    first = root / "memory"  # version 1 of control groups
    limits.append((first / "memory.limit_in_bytes", first / "memory.usage_in_bytes"))
    for most, used in limits:
        try:
            yield int(most.read_text()) - int(used.read_text()) + _num_inactive(most.parent)
        except (OSError, ValueError):  # there is none, or it says `max`
            continue


def _num_inactive(group: Path) -> int:
    """Return the bytes of files read by the group, dropped by the kernel when needed."""
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(stat.get("inactive_file", 0))


def _left_of_address_space() -> Iterator[int]:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    try:
        num_pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    yield limit - num_pages * os.sysconf("SC_PAGE_SIZE")
