"""How many tokens a request took: what its endpoint says, where that can be true; else an estimate.

Without one, a ceiling of costs would never be reached, or one reply would reach it.
"""

from typing import Any

from assay_judge.providers.escalation import Attempt
from assay_judge.state.ledger import Usage

#: About as many bytes as a token has, on the safe side.
_BYTES_PER_TOKEN = 3
#: Tokens that a chat template may add to a prompt.
_TEMPLATE_TOKENS = 1024


def estimate_prompt(prompt: str) -> int:
    """Return about how many tokens a prompt has, rather too many than too few."""
    return num_bytes(prompt) // _BYTES_PER_TOKEN + 1


def known_usage(said: Any, prompt: str, num_written: int, step: Attempt) -> Usage:
    """Return the tokens of one request whose reply has `num_written` bytes with its reasoning.

    A number is believed if the text can have so many tokens. Each token has a byte or more, and
    reasoning that is not shown has no more of them than `max_tokens`.
    """
    given = said if isinstance(said, dict) else {}
    most_read = num_bytes(prompt) + _TEMPLATE_TOKENS
    most_written = max(step.max_tokens, num_written)
    prompt_tokens = _believe(given.get("prompt_tokens"), 1, most_read)
    completion_tokens = _believe(given.get("completion_tokens"), bool(num_written), most_written)
    if prompt_tokens is not None and completion_tokens is not None:
        return Usage(prompt_tokens, completion_tokens)
    return Usage(
        estimate_prompt(prompt) if prompt_tokens is None else prompt_tokens,
        num_written // _BYTES_PER_TOKEN + 1 if completion_tokens is None else completion_tokens,
        is_estimated=True,
    )


def _believe(tokens: Any, least: int, most: int) -> int | None:
    if isinstance(tokens, float) and tokens.is_integer():
        tokens = int(tokens)
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return None
    return tokens if least <= tokens <= most else None


def num_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
