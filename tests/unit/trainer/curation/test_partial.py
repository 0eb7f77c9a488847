"""Two imports into one folder: one writes it, and the other is told."""

import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from assay_shared.errors import Conflict
from assay_trainer.curation.partial import partial_folder


def hold(output: Path, is_inside: Event, may_end: Event) -> None:
    """Write an output, and wait in between."""
    with partial_folder(output) as partial:
        (partial / "rows").write_text("first")
        is_inside.set()
        may_end.wait(30)


def test_the_second_of_two_at_once_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    output = tmp_path / "out"
    context = multiprocessing.get_context("spawn")
    is_inside, may_end = context.Event(), context.Event()
    first = context.Process(target=hold, args=(output, is_inside, may_end))
    first.start()
    assert is_inside.wait(30)
    with pytest.raises(Conflict, match="another import writes"), partial_folder(output):
        raise AssertionError
    may_end.set()
    first.join(30)
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    assert (output / "rows").read_text() == "first"
    with pytest.raises(Conflict, match="is not empty"), partial_folder(output):
        raise AssertionError


def test_a_stopped_import_is_no_obstacle(tmp_path: Path) -> None:
    output = tmp_path / "out"

    def stop() -> None:
        with partial_folder(output) as partial:
            (partial / "deep").mkdir()
            (partial / "deep" / "old").write_text("old")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert not output.exists()
    with partial_folder(output) as partial:
        assert list(partial.iterdir()) == []
        (partial / "new").write_text("new")
    assert [one.name for one in output.iterdir()] == ["new"]
