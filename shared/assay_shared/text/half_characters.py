"""Lone surrogates: halves of characters; JSON can spell them and UTF-8 cannot."""


def is_utf8(text: str) -> bool:
    """Return True if a text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_half_character(value: object) -> tuple[str | int, ...] | None:
    """Return the path to the first text or key with a lone surrogate in parsed JSON, or None."""
    if isinstance(value, str):
        return None if is_utf8(value) else ()
    if isinstance(value, dict):
        wrong = next((key for key in value if not is_utf8(key)), None)
        if wrong is not None:
            return (wrong,)
        value = value.items()
    elif isinstance(value, list):
        value = enumerate(value)
    else:
        return None
    for key, item in value:
        place = find_half_character(item)
        if place is not None:
            return (key, *place)
    return None
