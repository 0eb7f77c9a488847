"""Words of a text, as SQuAD's metrics compare them (arXiv 1606.05250)."""

import re
import string
import unicodedata

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_DROPPED = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Return a text in lower case without articles, punctuation, extra space and final marks.

    Final marks of any script are dropped. A text of nothing else, such as the choice "A", keeps
    them: otherwise it would equal an empty answer.
    """
    folded = _without_final_marks(text.casefold())
    plain = " ".join(_ARTICLES.sub(" ", folded.translate(_DROPPED)).split())
    return plain or " ".join(folded.split())


def _without_final_marks(text: str) -> str:
    """Return a text without final marks of other scripts: ASCII marks are dropped anywhere."""
    bare = text.rstrip()
    while bare and not bare[-1].isascii() and unicodedata.category(bare[-1]) == "Po":
        bare = bare[:-1].rstrip()
    return bare or text
