"""Token counts of a request: the endpoint's numbers if they are plausible, else an estimate.

Implausible numbers could keep a cost ceiling from ever being reached, or reach it at once.
"""

from typing import Any

from assay_shared.providers.escalation import Attempt
from assay_shared.providers.state.ledger import Usage

#: Bytes of a token, estimated low: too many tokens are safer than too few.
_BYTES_PER_TOKEN = 3
#: Fewer tokens are not believed. Spaces in a row are the longest usual tokens, of about 16 bytes;
#: an endpoint that reports less could keep a ceiling from being reached.
_MOST_BYTES_PER_TOKEN = 32
#: Tokens that a chat template may add to a prompt.
_TEMPLATE_TOKENS = 1024


def estimate_prompt(prompt: str) -> int:
    """Return an estimate of a prompt's tokens, rather too high than too low."""
    return num_bytes(prompt) // _BYTES_PER_TOKEN + 1


def known_usage(said: Any, prompt: str, num_written: int, step: Attempt) -> Usage:
    """Return the tokens of a request; its reply has `num_written` bytes, reasoning included.

    The endpoint's number is believed if the text can have that number of tokens. Each token has
    1 to 32 bytes, and hidden reasoning has at most `max_tokens` tokens.
    """
    given = said if isinstance(said, dict) else {}
    most_read = num_bytes(prompt) + _TEMPLATE_TOKENS
    most_written = max(step.max_tokens, num_written)
    prompt_tokens = _believe(given.get("prompt_tokens"), _least(num_bytes(prompt)), most_read)
    written = given.get("completion_tokens")
    completion_tokens = _believe(written, _least(num_written), most_written)
    if prompt_tokens is not None and completion_tokens is not None:
        return Usage(prompt_tokens, completion_tokens)
    return Usage(
        estimate_prompt(prompt) if prompt_tokens is None else prompt_tokens,
        num_written // _BYTES_PER_TOKEN + 1 if completion_tokens is None else completion_tokens,
        is_estimated=True,
    )


def _least(num_bytes: int) -> int:
    """Return the fewest tokens of usual text with this number of bytes."""
    return -(-num_bytes // _MOST_BYTES_PER_TOKEN)


def _believe(tokens: Any, least: int, most: int) -> int | None:
    if isinstance(tokens, float) and tokens.is_integer():
        tokens = int(tokens)
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return None
    return tokens if least <= tokens <= most else None


def num_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
