"""Holm's correction."""

import pytest

from assay_shared.statistics.multiplicity import holm


def test_each_p_is_multiplied_by_the_tests_left_and_never_falls_below_an_earlier_one() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_corrected_values_are_at_most_1() -> None:
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.02]) == [0.02]
