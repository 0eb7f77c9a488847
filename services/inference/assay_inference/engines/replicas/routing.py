"""Which replica draws for a prompt: the one that holds its prefix, unless it has too much to do.

Rendezvous hashing (Thaler and Ravishankar, 1998): each replica has a weight for each prefix, drawn
from a hash of both, and the highest weight is first; when a replica comes or goes, only its own
prompts move. Bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): one that has more than
`spread` times the mean load is passed over.
"""

import hashlib
from collections.abc import Mapping, Sequence


def in_order(prefix: Sequence[int], names: Sequence[str]) -> list[str]:
    """The replicas in the order in which a prompt with this prefix prefers them."""
    key = ",".join(map(str, prefix)).encode()

    def weight(name: str) -> bytes:
        return hashlib.blake2b(key, key=name.encode()[:64], digest_size=8).digest()

    return sorted(names, key=weight, reverse=True)


def choose(
    prefix: Sequence[int], loads: Mapping[str, int], spread: float, idle_load: int
) -> str | None:
    """The first in order whose load is within bounds; None where there is no replica.

    Args:
        loads: sequences in hand, by replica.
        idle_load: up to so many sequences a replica is never too busy.
    """
    if not loads:
        return None
    bound = max(spread * sum(loads.values()) / len(loads), idle_load)
    order = in_order(prefix, list(loads))
    return next((name for name in order if loads[name] <= bound), order[0])
