"""Weights of a mixture: by folder, by the path of a folder, or by domain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay_shared.errors import InvalidInput
from assay_trainer.curation.order import share_of

_DOMAIN = "domain:"
_FIELD = "--weight"
#: Shares are given as percent, with a few digits.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Weighted:
    """A part of a mixture: its path as given, its folder's name, its domain and its rows."""

    path: str
    name: str
    domain: str
    size: int


def weights_of(texts: Iterable[str]) -> dict[str, float]:
    """Return shares by name, of texts such as math=40%.

    Raises:
        InvalidInput: a text is not of this form, or a name is there twice.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, mark, share = text.rpartition("=")
        if not mark or not name:
            raise InvalidInput(f"{text!r} is not NAME=40% or NAME=0.4", field=_FIELD)
        if name in found:
            raise InvalidInput(f"{name} has two weights", field=_FIELD)
        found[name] = share_of(share, _FIELD, takes_whole=True)
    return found


def shares_of(parts: Sequence[Weighted], weights: Mapping[str, float]) -> list[float]:
    """Return the share of each part; a domain's share goes to its parts by their rows.

    Raises:
        InvalidInput: a weight names no part or several ones, a part has no weight, or the weights
            do not sum to 1.
    """
    found: dict[int, float] = {}
    domains: dict[str, float] = {}
    for name, share in weights.items():
        at = _folder(name, parts)
        if at is None:
            domain = name.removeprefix(_DOMAIN)
            if domain in domains:
                raise InvalidInput(f"domain {domain} has two weights", field=_FIELD)
            domains[domain] = share
        elif at in found:
            raise InvalidInput(f"{parts[at].path} has two weights", field=_FIELD)
        else:
            found[at] = share
    for domain, share in domains.items():
        rest = [at for at, one in enumerate(parts) if one.domain == domain and at not in found]
        if not rest:
            raise InvalidInput(f"each folder of domain {domain} has a weight already", field=_FIELD)
        size = sum(parts[at].size for at in rest)
        found |= {at: share * parts[at].size / size for at in rest}
    if without := [one.path for at, one in enumerate(parts) if at not in found]:
        raise InvalidInput(
            f"{', '.join(without)} has no weight", field=_FIELD, hint="give each folder one, or 0%"
        )
    total = sum(weights.values())
    if abs(total - 1) > _ROUNDING:
        raise InvalidInput(f"the weights sum to {total:.2%} and not to 100%", field=_FIELD)
    return [found[at] for at in range(len(parts))]


def _folder(name: str, parts: Sequence[Weighted]) -> int | None:
    """Return the number of the part that a weight names; None for a domain."""
    by_path = [at for at, one in enumerate(parts) if one.path == name]
    by_name = [at for at, one in enumerate(parts) if one.name == name]
    is_domain = any(one.domain == name.removeprefix(_DOMAIN) for one in parts)
    if name.startswith(_DOMAIN) and is_domain:
        return None
    found = by_path or by_name
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} folders are called {name}",
            field=_FIELD,
            hint=f"name a path: {', '.join(f'{parts[at].path}=...' for at in found)}",
        )
    if found and is_domain and parts[found[0]].path != name:
        raise InvalidInput(
            f"{name} is a folder and a domain",
            field=_FIELD,
            hint=f"say {parts[found[0]].path}=... or {_DOMAIN}{name}=...",
        )
    if not found and not is_domain:
        known = {one.name for one in parts} | {one.domain for one in parts}
        raise InvalidInput(
            f"no part and no domain is called {name}",
            field=_FIELD,
            hint=f"there are {', '.join(sorted(known))}",
        )
    return found[0] if found else None
