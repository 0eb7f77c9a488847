"""The share of groups with signal, as the batcher plans with it."""

from assay_trainer.learner.batching.signal_share import SignalShare


def test_before_the_first_group_all_are_expected_to_have_signal() -> None:
    assert SignalShare().upper == 1.0


def test_the_bound_is_above_the_share_and_comes_closer_with_more_groups() -> None:
    share = SignalShare()
    bounds = []
    for _ in range(64):
        for has_signal in (True, False, False, False):
            share.count(has_signal)
        bounds.append(share.upper)
    assert all(bound > 0.25 for bound in bounds)
    assert bounds[0] > 0.6
    assert bounds[-1] < 0.31


def test_what_was_long_ago_is_forgotten() -> None:
    share = SignalShare()
    for has_signal in [True] * 1000 + [False] * 256:
        share.count(has_signal)
    assert share.upper < 0.02
