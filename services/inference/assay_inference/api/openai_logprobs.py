"""Log-probabilities in OpenAI's format: tokens with their text, bytes and offset."""

from collections.abc import Sequence

from pydantic import JsonValue

from assay_inference.tokenizer.tokenizer import PolicyTokenizer
from assay_shared.types import Completion, PromptLogprobs, TopLogprobs

Json = dict[str, JsonValue]


def name_of(vocabulary: PolicyTokenizer, token_id: int) -> str:
    """Return a token's text, or for part of a character its bytes, as OpenAI writes them."""
    there = vocabulary.bytes_of(token_id)
    try:
        return there.decode()
    except UnicodeDecodeError:
        return "bytes:" + there.decode("ascii", errors="backslashreplace")


def text_of(vocabulary: PolicyTokenizer, token_ids: Sequence[int]) -> str:
    """Return the text of a prompt's ids, with special tokens by name."""
    return b"".join(map(vocabulary.bytes_of, token_ids)).decode(errors="replace")


def chat_logprobs(vocabulary: PolicyTokenizer, completion: Completion) -> Json:
    """Return the `logprobs` field of a chat's choice."""
    tops = completion.top_logprobs or ((),) * len(completion.token_ids)
    entries = zip(completion.token_ids, completion.logprobs, tops, strict=True)
    return {
        "content": [
            _entry(vocabulary, token_id, logprob)
            | {"top_logprobs": [_entry(vocabulary, *pair) for pair in top]}
            for token_id, logprob, top in entries
        ]
    }


def _entry(vocabulary: PolicyTokenizer, token_id: int, logprob: float) -> Json:
    there: list[JsonValue] = [*vocabulary.bytes_of(token_id)]
    return {"token": name_of(vocabulary, token_id), "logprob": logprob, "bytes": there}


def text_logprobs(
    vocabulary: PolicyTokenizer, completion: Completion, prompt: PromptLogprobs | None, num_top: int
) -> Json:
    """Return the `logprobs` field of a text completion's choice.

    With an echoed prompt, the prompt's tokens come first.
    """
    ids, logprobs = list(completion.token_ids), [*completion.logprobs]
    tops: list[TopLogprobs] = [*completion.top_logprobs]
    values: list[float | None] = [*logprobs]
    offsets = _offsets(vocabulary, completion.token_ids, 0, are_special_shown=False)
    if prompt is not None:
        start = len(text_of(vocabulary, prompt.token_ids))
        before = _offsets(vocabulary, prompt.token_ids, 0, are_special_shown=True)
        offsets = before + [start + offset for offset in offsets]
        ids, values = [*prompt.token_ids, *ids], [*prompt.logprobs, *values]
        tops = [*prompt.top_logprobs, *tops]
    shown: list[JsonValue] = []
    if num_top:
        for token_id, value, top in zip(ids, values, tops, strict=True):
            shown.append(None if value is None else _by_name(vocabulary, (token_id, value), top))
    return {
        "tokens": [name_of(vocabulary, token_id) for token_id in ids],
        "token_logprobs": list[JsonValue](values),
        "top_logprobs": shown or None,
        "text_offset": list[JsonValue](offsets),
    }


def _by_name(vocabulary: PolicyTokenizer, own: tuple[int, float], top: TopLogprobs) -> Json:
    """Return log-probabilities by token name: the most probable tokens, and the actual token."""
    return {name_of(vocabulary, token_id): logprob for token_id, logprob in (*top, own)}


def _offsets(
    vocabulary: PolicyTokenizer, token_ids: Sequence[int], start: int, *, are_special_shown: bool
) -> list[int]:
    """Return each token's offset, in characters.

    A token that begins within a character has the offset of this character.
    """
    offsets, num_begun = [], start
    for token_id in token_ids:
        is_shown = are_special_shown or not vocabulary.is_special(token_id)
        there = vocabulary.bytes_of(token_id) if is_shown else b""
        is_within = bool(there) and there[0] & 0xC0 == 0x80 and num_begun > start
        offsets.append(num_begun - is_within)
        num_begun += sum(byte & 0xC0 != 0x80 for byte in there)
    return offsets


def prompt_logprobs(vocabulary: PolicyTokenizer, read: PromptLogprobs) -> list[JsonValue]:
    """Return vLLM's `prompt_logprobs`: None for the first place, then the tokens there by id."""
    tops = read.top_logprobs or ((),) * len(read.token_ids)
    found: list[JsonValue] = []
    for token_id, logprob, top in zip(read.token_ids, read.logprobs, tops, strict=True):
        if logprob is None:
            found.append(None)
            continue
        ranks: dict[int, int | None] = {one: rank for rank, (one, _) in enumerate(top, start=1)}
        values = dict(top) | {token_id: logprob}
        found.append(
            {
                str(one): {
                    "logprob": value,
                    "rank": ranks.get(one),
                    "decoded_token": name_of(vocabulary, one),
                }
                for one, value in values.items()
            }
        )
    return found
