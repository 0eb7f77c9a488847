"""Weights of a mixture by folder, path and domain."""

import pytest

from assay_shared.errors import InvalidInput
from assay_trainer.curation.weights import Weighted, shares_of, weights_of

PARTS = [
    Weighted("sets/gsm8k", "gsm8k", "math", 30),
    Weighted("sets/math", "math", "math", 10),
    Weighted("sets/csqa", "csqa", "qa", 20),
]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"domain:math": 0.5, "qa": 0.5}, [0.375, 0.125, 0.5]),
        ({"sets/math": 0.5, "gsm8k": 0.2, "csqa": 0.3}, [0.2, 0.5, 0.3]),
        ({"gsm8k": 0.2, "domain:math": 0.3, "qa": 0.5}, [0.2, 0.3, 0.5]),
        ({"gsm8k": 1.0, "sets/math": 0, "qa": 0}, [1, 0, 0]),
    ],
)
def test_a_domains_share_goes_to_its_other_folders(
    weights: dict[str, float], expected: list[float]
) -> None:
    assert shares_of(PARTS, weights) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ({"math": 0.5, "qa": 0.5}, "math is a folder and a domain"),
        ({"gsm8k": 0.5, "qa": 0.5}, "sets/math has no weight"),
        ({"domain:math": 0.6, "qa": 0.6}, r"sum to 120.00% and not to 100%"),
        ({"domain:math": 0.3, "qa": 0.3}, r"sum to 60.00%"),
        ({"gsm8k": 0.5, "sets/gsm8k": 0.5}, "sets/gsm8k has two weights"),
        ({"qa": 0.5, "domain:qa": 0.5}, "domain qa has two weights"),
        ({"csqa": 0.5, "qa": 0.5}, "each folder of domain qa has a weight"),
        ({"code": 1.0}, "no part and no domain is called code"),
    ],
)
def test_weights_that_do_not_tell_the_shares_are_errors(
    weights: dict[str, float], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        shares_of(PARTS, weights)


def test_two_folders_of_one_name_are_told_by_their_paths() -> None:
    parts = [Weighted("a/x", "x", "math", 1), Weighted("b/x", "x", "math", 1)]
    with pytest.raises(InvalidInput, match="2 folders are called x") as caught:
        shares_of(parts, {"x": 1.0})
    assert "a/x=..., b/x=..." in (caught.value.hint or "")
    assert shares_of(parts, {"a/x": 0.3, "b/x": 0.7}) == [0.3, 0.7]


def test_texts_are_names_with_shares() -> None:
    assert weights_of(["math=40%", "a=b=0.6"]) == {"math": 0.4, "a=b": 0.6}
    assert weights_of(["math=100%"]) == {"math": 1.0}
    for texts, reason in ((["math"], "is not NAME=40%"), (["a=50%", "a=50%"], "a has two weights")):
        with pytest.raises(InvalidInput, match=reason):
            weights_of(texts)
