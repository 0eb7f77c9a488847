"""The tokens of an answer as texts, each with its log-probability."""

import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from assay_shared.runs.regular_file import read_regular
from assay_shared.types import Rollout

_MOST_TOKENIZER_BYTES = 64 * 2**20
#: A character of UTF-8 has at most 4 bytes, and a token at least one of them.
_MOST_MERGED = 4
#: Lower bounds of the colours 0 to 5, in nats.
_LEVELS = (-0.05, -0.5, -1.0, -2.0, -4.0)
_BROKEN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class TokenPiece:
    """A token, or a few that spell one character together; `logprob` in nats is their sum.

    `level` is 0 for a likely token to 5 for a very unlikely one, and None for an observation's
    token, which nobody sampled.
    """

    text: str
    logprob: float
    level: int | None
    version: int | None


def find_tokenizer(run: Path) -> Path | None:
    """Return the tokenizer of a run's newest weights, else of one of its models."""
    policies = sorted((run / "policy").glob("v*/tokenizer.json"), reverse=True)
    models = sorted((run / "models").glob("*/tokenizer.json"))
    for path in (*policies, *models):
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_TOKENIZER_BYTES:
                return path
    return None


def token_pieces(run: Path, rollout: Rollout, limit: int) -> tuple[list[TokenPiece], str]:
    """Return the first `limit` tokens of an answer, or none and why they cannot be shown."""
    path = find_tokenizer(run)
    if path is None:
        return [], "no readable tokenizer.json of at most 64 MiB is left in the run's folder"
    try:
        tokenizer = _load(path, path.stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        return [], f"{path.name} cannot be read: {error}"[:200]
    ids, logprobs = rollout.token_ids[:limit], rollout.logprobs[:limit]
    if len(logprobs) < len(ids):
        return [], "log-probabilities are not stored"
    versions = [
        None if span.policy is None else span.policy.version
        for span in rollout.spans
        for _ in range(min(span.num_tokens, limit))
    ][: len(ids)]
    try:
        return _pieces(tokenizer, ids, logprobs, versions), ""
    except OverflowError:
        return [], "a token's id is not of the tokenizer"


@lru_cache(maxsize=4)
def _load(path: Path, mtime_ns: int) -> Tokenizer:
    """Return a tokenizer; a changed file is loaded again.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a tokenizer.
    """
    del mtime_ns
    return Tokenizer.from_buffer(read_regular(path, _MOST_TOKENIZER_BYTES))


def _pieces(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    logprobs: Sequence[float],
    versions: Sequence[int | None],
) -> list[TokenPiece]:
    found = []
    at = 0
    while at < len(ids):
        size = 1
        text = _decode(tokenizer, ids[at : at + 1])
        while _BROKEN in text and size < _MOST_MERGED and at + size < len(ids):
            longer = _decode(tokenizer, ids[at : at + size + 1])
            size += 1
            if _BROKEN not in longer:
                text = longer
                break
        else:
            if _BROKEN in text:
                size = 1  # no neighbour helps: it stands alone
        total = sum(logprobs[at : at + size])
        version = versions[at]
        level = None if version is None else sum(total / size < bound for bound in _LEVELS)
        found.append(TokenPiece(text, total, level, version))
        at += size
    return found


def _decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False))
