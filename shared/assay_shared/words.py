"""Words of a text, as SQuAD's metrics compare them (arXiv 1606.05250)."""

import re
import string

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DROPPED = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case without articles, punctuation, extra space.

    A text of nothing else, such as the choice "A", keeps them: it would equal an empty answer.
    """
    folded = text.casefold()
    plain = " ".join(_ARTICLES.sub(" ", folded.translate(_DROPPED)).split())
    return plain or " ".join(folded.split())
