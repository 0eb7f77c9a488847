"""Control tokens in given texts: from them, a model learns to end or begin a message itself."""

import re
from collections.abc import Iterable, Sequence

from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.types import Task


def with_control_tokens(
    rows: Iterable[tuple[Task, Sequence[str]]], tokenizer: PreTrainedTokenizerBase
) -> list[tuple[Task, str]]:
    """Return the tasks of the rows with a control token of the policy, each with the reason.

    The texts of a row are its messages and answers, as they stand before the chat template. The
    token for unknown text does not count: any text may be unknown.
    """
    names = _control_tokens(tokenizer)
    if not names:
        return []
    # Longer names first: one may begin with another.
    pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    found = []
    for task, texts in rows:
        match = next(filter(None, map(pattern.search, texts)), None)
        if match is not None:
            found.append((task, f"it has the control token {match[0]} of the policy"))
    return found


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    added = {str(one) for one in tokenizer.added_tokens_decoder.values() if one.special}
    names = added | {str(one) for one in tokenizer.all_special_tokens}
    return {name for name in names if name.strip()} - {str(tokenizer.unk_token)}
