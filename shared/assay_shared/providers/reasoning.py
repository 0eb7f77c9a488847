"""Separation of a reply's content from its reasoning, for endpoints that return both in one text.

Endpoints without a parser for their model's reasoning do so: Qwen3 and R1 write <think> tags,
gpt-oss writes the channels of the harmony format, and some endpoints give a list of parts.
"""

from typing import Any, NamedTuple

from assay_shared.text.reasoning import after_reasoning

_FINAL = "<|channel|>final<|message|>"
_CHANNEL = ("<|channel|>", "<|start|>")
_ENDS = ("<|return|>", "<|end|>", "<|im_end|>", "<|eot_id|>")
#: Harmony's text after an endpoint has dropped its special tokens.
_BARE_BEGIN, _BARE_FINAL = ("analysis", "commentary"), "assistantfinal"
_TEXT_PARTS = frozenset({"text", "output_text"})
_REASONING_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})
_MAX_PARTS = 1000


class Content(NamedTuple):
    """A reply's text without reasoning, and the number of characters of reasoning."""

    text: str
    num_reasoned: int


def read_content(content: Any) -> Content:
    """Return a message's content; its text is "" if there is none, or a part of unknown kind."""
    if isinstance(content, list):
        return _read_parts(content)
    # Some servers keep a byte order mark written by the model.
    text = content.removeprefix("\ufeff").strip() if isinstance(content, str) else ""
    if text.startswith("{"):  # a verdict may quote any tag
        return Content(text, 0)
    final = _after_reasoning(text)
    return Content(final, len(text) - len(final))


def _read_parts(parts: list[Any]) -> Content:
    texts: list[str] = []
    num_reasoned = 0
    for part in parts[:_MAX_PARTS]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind in _REASONING_PARTS:
            num_reasoned += len(str(part))
        else:
            return Content("", num_reasoned)
    inner = read_content("".join(texts))
    return Content(inner.text, num_reasoned + inner.num_reasoned)


def _after_reasoning(text: str) -> str:
    if text.startswith(_CHANNEL):
        return _strip_ends(text.rpartition(_FINAL)[2]) if _FINAL in text else ""
    text = after_reasoning(text)
    if text.startswith(_BARE_BEGIN) and _BARE_FINAL in text:
        return text.rpartition(_BARE_FINAL)[2].strip()
    return _strip_ends(text)


def _strip_ends(text: str) -> str:
    text = text.strip()
    for end in _ENDS:
        text = text.removesuffix(end)
    return text.strip()
