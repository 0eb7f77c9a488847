"""Comparisons of stored evaluations, asked for by several threads."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay_shared.errors import NotReady
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.facts import evaluated
from assay_trainer.browser.facts.evaluated import (
    EvaluationReader,
    PairedEvaluations,
    turned_task,
)
from tests.support.browser.stored_runs import make_run
from tests.unit.trainer.evaluation.test_report import make_evaluation


def run_at(folder: Path) -> RunFolder:
    run = make_run(folder)
    run.evaluation("before").parent.mkdir()
    for name, num_right in (("before", 0), ("after", 4)):
        run.evaluation(name).write_text(make_evaluation(name, num_right).model_dump_json())
    return run


def test_a_large_comparison_is_made_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluated, "_OWN_PROCESS_BYTES", 0)
    found = EvaluationReader().of_run(run_at(tmp_path / "a"))
    monkeypatch.undo()
    here = EvaluationReader().of_run(run_at(tmp_path / "b"))
    assert found.data is not None
    assert here.data is not None
    assert [row.difference for row in found.data.rows] == [row.difference for row in here.data.rows]
    turned = turned_task(found, "held_out", "t3")
    assert (turned.before.samples[0].text, turned.after.samples[0].text) == ("b", "a")


def test_a_slow_comparison_delays_no_known_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, known, new = EvaluationReader(), run_at(tmp_path / "a"), run_at(tmp_path / "b")
    first = reader.of_run(known)
    compare, goes_on, began = evaluated._compared, threading.Event(), threading.Event()
    calls: list[int] = []

    def slowly(places: Sequence[tuple[RunFolder, str]], has_strata: bool) -> PairedEvaluations:
        calls.append(len(places))
        began.set()
        assert goes_on.wait(30)
        return compare(places, has_strata)

    monkeypatch.setattr(evaluated, "_compared", slowly)
    with ThreadPoolExecutor() as threads:
        waiting = [threads.submit(reader.of_run, new) for _ in range(2)]
        assert began.wait(30)
        assert reader.of_run(known) is first, "it does not wait for the other run"
        goes_on.set()
        assert waiting[0].result(30) is waiting[1].result(30)
    assert calls == [2], "both threads get one comparison"


def test_a_failed_comparison_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, run = EvaluationReader(), run_at(tmp_path / "a")

    def fail(*_: object) -> PairedEvaluations:
        raise NotReady("planted")

    with monkeypatch.context() as changed:
        changed.setattr(evaluated, "_compared", fail)
        with pytest.raises(NotReady, match="planted"):
            reader.of_run(run)
    assert reader.of_run(run).data is not None
