"""A failed sample has no advantage; as a 0 it would have had one of -2.47."""

from pathlib import Path

import pytest

from assay_shared.verdicts.compared import Harm
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.browser.samples.failed_groups import failed_groups
from tests.support.browser.stored_runs import keep, make_group, make_run


def test_a_failure_stands_beside_the_zero_of_usual_practice(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    keep(run, 1, make_group(1, 1, *["accepted"] * 7, "failed:judge"), "no_signal")
    keep(run, 2, make_group(2, 2, "accepted", "wrong_answer"))
    keep(run, 3, make_group(3, 3, "failed:sandbox", "failed:sandbox"), "failed")
    keep(run, 4, make_group(4, 4, "accepted", "wrong_answer", "failed:network"))
    index = RunIndex(run.path, tmp_path / "indexes")
    index.complete()
    first, second = failed_groups(index, 10)
    assert first.name == "step 1, family-1/1 (not trained on)"
    assert first.advantages == [0.0] * 7 + [None]
    assert first.usual_advantages[-1] == pytest.approx(-2.47, abs=0.005)
    assert [one.harm for one in first.answers] == [Harm.NONE] * 7 + [Harm.FAILURE_AS_ZERO]
    assert first.answers[-1].assay.reason == "no judge answered <b>in time</b>"
    assert second.name == "step 4, family-4/4 (trained on)"
    assert second.advantages[-1] is None
    assert second.usual_advantages[-1] < 0
    assert failed_groups(index, 1) == [first]
