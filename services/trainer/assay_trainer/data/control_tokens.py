"""Control tokens of a tokenizer, and the given texts that have one.

From such a text, a model learns to end or begin a message itself.
"""

import re
from collections.abc import Iterable, Sequence

from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from assay_shared.types import Task


def control_tokens(
    tokenizer: PreTrainedTokenizerBase, further: Iterable[int] = ()
) -> dict[int, str]:
    """Return the control tokens by id: the special ones, and `further` ones.

    The token for unknown text is left out, unless it has another use too: any text may be unknown.
    """
    added = tokenizer.added_tokens_decoder
    found = {number for number, token in added.items() if token.special}
    found |= {*tokenizer.all_special_ids, *further}
    named = {
        name: one for name, one in tokenizer.special_tokens_map.items() if isinstance(one, str)
    }
    unknown = named.pop("unk_token", None)
    if unknown is not None and unknown not in named.values():
        found.discard(tokenizer.unk_token_id)
    return {number: str(tokenizer.convert_ids_to_tokens(number)) for number in found}


def with_control_tokens(
    rows: Iterable[tuple[Task, Sequence[str]]], tokenizer: PreTrainedTokenizerBase
) -> list[tuple[Task, str]]:
    """Return the tasks of the rows with a control token of the policy, each with the reason.

    A row has a task and the answers to it. Its messages and answers are searched as they stand
    before the chat template.
    """
    names = [name for name in control_tokens(tokenizer).values() if name.strip()]
    if not names:
        return []
    # Longer names first: one may begin with another.
    pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    found = []
    for task, answers in rows:
        texts = (*(message.content for message in task.messages), *answers)
        match = next(filter(None, map(pattern.search, texts)), None)
        if match is not None:
            found.append((task, f"it has the control token {match[0]} of the policy"))
    return found
