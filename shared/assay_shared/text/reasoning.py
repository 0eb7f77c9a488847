"""The reasoning in a model's text, between tags that most templates use."""

#: Opening and closing tags. A template may have written the opening tag into the prompt.
_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
)


def after_reasoning(text: str) -> str:
    """Return a text without its tagged reasoning; "" if the reasoning never ends."""
    if "<" not in text and "[" not in text:
        return text
    for opening, closing in _TAGS:
        if closing in text:
            return text.rpartition(closing)[2]
        if opening in text and text.lstrip().startswith(opening):
            return ""
    return text
