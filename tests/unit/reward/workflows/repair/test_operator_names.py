"""Names of operators: case, snake case, one edit, and no guess between two."""

import pytest

from assay_reward.workflows.language.signatures import OPERATORS
from assay_reward.workflows.repair.operator_names import is_one_edit, nearest

KNOWN = [
    ("custom", "Custom"),
    ("self.sc_ensemble", "ScEnsemble"),
    ("SCENSEMBLE", "ScEnsemble"),
    ("operator.AnswerGenerate", "AnswerGenerate"),
    ("Cutsom", "Custom"),
    ("Custm", "Custom"),
    ("Customs", "Custom"),
    ("Reviev", "Review"),
    ("Cstm", None),
    ("McEnsemble", None),  # one edit from ScEnsemble and from MdEnsemble
    ("exec", None),
    ("", None),
    ("a" * 10_000, None),
]


@pytest.mark.parametrize(("name", "expected"), KNOWN)
def test_the_one_near_name_is_found(name: str, expected: str | None) -> None:
    assert nearest(name, OPERATORS) == expected


def test_short_names_are_never_one_edit_away() -> None:
    assert not is_one_edit("abc", "abd")
    assert not is_one_edit("review", "revise")
    assert is_one_edit("abcd", "abdc")
    assert is_one_edit("abcd", "abcde")
