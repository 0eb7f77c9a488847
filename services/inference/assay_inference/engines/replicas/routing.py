"""Choice of a replica for a prompt: the replica with its prefix, unless it is too busy.

Rendezvous hashing (Thaler and Ravishankar, 1998): each replica has a weight for each prefix, from
a hash of both, and the highest weight is first; if a replica comes or goes, only its own prompts
move. Bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): a replica with more than `spread`
times the mean load is skipped.
"""

import hashlib
from collections.abc import Mapping, Sequence


def in_order(prefix: Sequence[int], names: Sequence[str]) -> list[str]:
    """Return the replicas in a prefix's order of preference."""
    key = ",".join(map(str, prefix)).encode()

    def weight(name: str) -> bytes:
        return hashlib.blake2b(key, key=name.encode()[:64], digest_size=8).digest()

    return sorted(names, key=weight, reverse=True)


def choose(
    prefix: Sequence[int], loads: Mapping[str, int], spread: float, idle_load: int
) -> str | None:
    """Return the first replica in order with a load within bounds; None without replicas.

    Args:
        loads: sequences in flight, by replica.
        idle_load: up to this number of sequences a replica is never too busy.
    """
    if not loads:
        return None
    bound = max(spread * sum(loads.values()) / len(loads), idle_load)
    order = in_order(prefix, list(loads))
    return next((name for name in order if loads[name] <= bound), order[0])
