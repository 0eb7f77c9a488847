"""Pictures of a comparison: ticks that can be told apart."""

from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure

from assay_trainer.comparison.report import pictures


def row(low: float, value: float, high: float) -> Any:
    interval = SimpleNamespace(low=low, value=value, high=high)
    return SimpleNamespace(
        metric="truncated",
        title="cut off at the limit",
        place="held_out",
        stratum="",
        is_relative=False,
        better="lower",
        verdict=None,
        headline=SimpleNamespace(interval=interval),
    )


@pytest.mark.parametrize("row", [row(-0.012, -0.004, 0.002), row(-0.5, -0.4, 0.1)])
def test_ticks_of_narrow_and_wide_intervals_have_labels_of_their_own(
    row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(pictures, "_png", drawn.append)
    pictures.forest([row], ["truncated"], 0.95)
    axes = drawn[0].axes[0]
    drawn[0].canvas.draw()
    labels = [one.get_text() for one in axes.get_xticklabels() if one.get_text()]
    assert len(labels) > 2
    assert len(set(labels)) == len(labels)
