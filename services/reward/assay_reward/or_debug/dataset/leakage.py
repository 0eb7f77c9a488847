"""Search for words in a text that would reveal an instance's answer."""

import re

from assay_reward.or_debug.models.instance import Instance

#: Words for mistakes in names and descriptions of published data.
LABEL_WORDS = re.compile(
    r"sabot\w*|\w*_?chain_(?:constr|cycle)\w*|\w*multi_constr\w*|\w*hidden_(?:root|aux|link)\w*"
    r"|\w*_force_\w*|\w*c_key_(?:upper|lower)\w*|ground[ _-]?truth\w*|error[ _-]?type\w*|inject\w*"
    r"|tamper\w*|flipped|contradict\w*|direction error|type change|(?:easy|medium|hard) problem"
    r"|\btype[ _][A-I]\b|requires 2\+ fixes|multi-constraint conflict|challenging problem"
    r"|cascad\w*|iis-incomplete|symptom\w*|optimal selection|mdp-advantage"
    r"|single-step repairs|multi-step reasoning|\w*type[A-I]_\d+",
    re.IGNORECASE,
)
#: A neutral name: a letter or two, and a number.
NEUTRAL = re.compile(r"[A-Za-z]{1,2}\d+")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def leaks(text: str, instance: Instance) -> list[str]:
    """Return the words in `text` about the kind of mistake or its place.

    These are label words, the instance's id, original names, and names of rows or columns other
    than neutral names. The list is empty for a text fit for a policy.
    """
    found = [match.group() for match in LABEL_WORDS.finditer(text)]
    telling = {name for name in instance.names.values() if not NEUTRAL.fullmatch(name)}
    parts = (*instance.model.rows, *instance.model.columns)
    telling |= {part.name for part in parts if not NEUTRAL.fullmatch(part.name)}
    found += [word for word in WORD.findall(text) if word in telling]
    if re.search(rf"(?<![\w-]){re.escape(instance.id)}(?![\w-])", text):
        found.append(instance.id)
    return list(dict.fromkeys(found))
