"""A run's groups through the index: growing files, damage, filters, rotation, resumes."""

import hashlib
import os
from pathlib import Path

import pytest

from assay_shared.errors import DatasetError, InvalidInput, NotFound, NotReady
from assay_shared.runs.run_folder import RunFolder
from assay_trainer.browser.reading import lines
from assay_trainer.browser.reading.filters import SampleFilter
from assay_trainer.browser.reading.rows import GroupPage, SampleAddress
from assay_trainer.browser.reading.run_index import RunIndex
from assay_trainer.browser.reading.side_file import opened
from assay_trainer.rollouts.rollout_log import DiscardedGroup, append_rollout, mark_superseded
from tests.support.browser.stored_runs import fill, keep, make_group, make_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "runs" / "a")


@pytest.fixture
def index(run: RunFolder, tmp_path: Path) -> RunIndex:
    return RunIndex(run.path, tmp_path / "index")


def keys(page: GroupPage) -> list[str]:
    return [group.key.split("/")[1] for group in page.groups]


def found(index: RunIndex, **conditions: str) -> list[str]:
    """Return the numbers of the groups and the places of their matching samples."""
    page = index.page(SampleFilter(**conditions), 100)
    places = [
        f"{group.key.split('/')[1]}.{sample.place}"
        for group in page.groups
        for sample in group.samples
        if sample.matches
    ]
    assert index.count(SampleFilter(**conditions)) == len(places)
    return places


def test_a_run_is_read_while_it_grows_and_a_half_written_line_is_left(
    run: RunFolder, index: RunIndex
) -> None:
    assert index.complete().num_samples == 0, "a run without rollouts"
    keep(run, 1, make_group(1, 0, "accepted", "wrong_answer"))
    assert index.complete().num_groups == 1
    line = run.rollouts.read_bytes()
    with run.rollouts.open("ab") as file:
        file.write(line[:100])
        file.flush()
        state = index.complete()
        assert (state.num_groups, state.bytes_left, state.num_problems) == (1, 100, 0)
        file.write(line[100:])
    assert index.complete().num_groups == 2
    assert [index.group(number).group.key for number in (1, 2)] == [
        "run/0/family-0/0/v1/code.dense"
    ] * 2


def test_damaged_lines_are_named_and_the_others_are_read(run: RunFolder, index: RunIndex) -> None:
    for number in range(3):
        keep(run, 1, make_group(1, number, "accepted"))
        with run.rollouts.open("ab") as file:
            file.write((b"{broken\n", b'{"step":1}\n', b"\x00\xff\n")[number])
    with run.rollouts.open("ab") as file:
        file.write(b'{"step":1,"group":' + b"[" * 100_000 + b"\n")
    state = index.complete()
    assert (state.num_groups, state.num_problems) == (3, 4)
    told = [(one.file, one.line, one.reason.split(":")[0]) for one in index.problems()]
    assert told[1] == ("rollouts.jsonl", 4, "group")
    assert [line for _, line, _ in told] == [2, 4, 6, 7]
    with pytest.raises(NotFound, match="no group of this run has the key"):
        index.find("run/9")


def test_a_line_that_is_too_long_is_skipped_by_name(
    run: RunFolder, index: RunIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines.whole_lines, "__defaults__", (5000,))
    keep(run, 1, make_group(1, 0, "accepted"))
    with run.rollouts.open("ab") as file:
        file.write(b"x" * 3_000_000)
        file.flush()
        assert index.complete().num_problems == 0, "it may still be a line that grows"
        file.write(b"\n")
    keep(run, 1, make_group(1, 1, "accepted"))
    state = index.complete()
    assert (state.num_groups, state.bytes_left) == (2, 0)
    assert index.problems()[0].reason == "a line of 3000001 bytes; lines of at most 5000 are read"


def test_a_line_that_was_changed_after_it_was_read_is_refused_by_name(
    run: RunFolder, index: RunIndex
) -> None:
    keep(run, 1, make_group(1, 0, "accepted"))
    index.complete()
    content = run.rollouts.read_bytes()
    run.rollouts.write_bytes(content.replace(b'"worker":"w1"', b'"worker":1234'))
    with pytest.raises(DatasetError, match=r"rollouts.jsonl:1: .*") as refused:
        index.group(1)
    assert refused.value.field == "worker"


def test_each_filter_finds_its_samples(run: RunFolder, index: RunIndex) -> None:
    keep(run, 1, make_group(1, 0, "accepted", "wrong_answer", "failed:judge"))
    keep(run, 2, make_group(2, 1, "failed:sandbox", "accepted"))
    keep(run, 2, make_group(2, 2, "wrong_answer", "wrong_answer"), "no_signal")
    failed = make_group(3, 3).model_copy(update={"failure": _failure()})
    keep(run, 3, failed, "failed")
    index.complete()
    assert found(index, outcome="failed") == ["0.2", "1.0", "3.-1"]
    assert found(index, outcome="failed:judge") == ["0.2", "3.-1"]
    assert found(index, outcome="accepted", step="2-3") == ["1.1"]
    assert found(index, task="FAMILY-1/") == ["1.0", "1.1"]
    assert found(index, tag="domain:lookup", outcome="accepted") == ["1.1"]
    assert found(index, tag='domain" OR 1:x') == []
    assert found(index, component="tests<0.5") == ["0.1", "2.0", "2.1"]
    assert found(index, component="length", step="1") == ["0.0", "0.1"]
    assert found(index, component="none") == []
    assert found(index, kept="discarded") == ["2.0", "2.1", "3.-1"]
    assert found(index, reason="no_signal") == ["2.0", "2.1"]
    assert found(index, kept="trained", text="NO JUDGE answered <b>in") == ["0.2", "1.0"]
    answer = index.group(index.find("run/0/family-0/0/v1/code.dense")).group.rollouts[1].text
    assert found(index, text=answer) == ["0.1"]
    assert found(index, text='a" OR "b') == []
    assert len(found(index, text="x ")) > 0, "two characters are found without trigrams"


def _failure() -> object:
    return make_group(1, 0, "failed:judge").rewards[0].failure  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", "x"),
        ("step", "1-2-3"),
        ("tag", "domain"),
        ("component", "tests<"),
        ("component", "tests<1.2.3"),
        ("kept", "all"),
        ("text", "x" * 500),
    ],
)
def test_a_filter_that_cannot_be_used_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SampleFilter(**{name: value})
    assert refused.value.field == name


def test_pages_follow_each_other_and_neighbours_lead_through_all_matches(
    run: RunFolder, index: RunIndex
) -> None:
    fill(run, 800, groups_per_step=4)
    index.complete()
    seen, after = [], ""
    while True:
        page = index.page(SampleFilter(outcome="wrong_answer"), 7, after)
        seen += [(group.step, group.key) for group in page.groups]
        after = page.after
        if not after:
            break
    assert len(seen) == len(set(seen)) == 100
    assert [step for step, _ in seen] == sorted(step for step, _ in seen)
    given = SampleFilter(outcome="failed")
    group = index.page(given, 1).groups[0]
    first = next(sample for sample in group.samples if sample.matches)
    here = SampleAddress(group.key, first.place, group.at)
    assert index.neighbours(given, index.find(here.key), here.place)[0] is None
    following = index.neighbours(given, index.find(here.key), here.place)[1]
    assert following is not None
    assert index.neighbours(given, index.find(following.key), following.place)[0] == here


def test_steps_that_a_resume_replaced_leave_the_lists(run: RunFolder, index: RunIndex) -> None:
    for step in (1, 2, 3):
        keep(run, step, make_group(step, step, "accepted"))
    keep(run, 3, make_group(3, 9, "accepted"), "no_signal")
    index.complete()
    mark_superseded(run.rollouts, 1)
    keep(run, 2, make_group(2, 12, "wrong_answer"))
    assert index.complete().num_groups == 2
    assert keys(index.page(SampleFilter(), 10)) == ["1", "12"]
    assert keys(index.page(SampleFilter(kept="superseded"), 10)) == ["2", "3", "9"]
    assert sum(index.counts().values()) == 2


def test_groups_that_were_set_aside_stay_and_what_is_older_goes(
    run: RunFolder, index: RunIndex
) -> None:
    size = len(make_group(1, 0, "accepted").model_dump_json())
    for number in range(10):
        append_rollout(run.rollouts, make_group(1, number, "accepted"), 1, 7 * size)
        index.complete()
    shown = keys(index.page(SampleFilter(), 100))
    lines_left = sum(
        (run.path / name).read_text().count("\n")
        for name in ("rollouts.jsonl", "rollouts.older.jsonl")
    )
    assert shown == [str(number) for number in range(10 - lines_left, 10)]
    for group in index.page(SampleFilter(), 100).groups:
        assert index.group(group.id).group.key == group.key
    assert found(index, text="def") is not None


def test_reading_changes_nothing_in_the_run_folder(run: RunFolder, tmp_path: Path) -> None:
    fill(run, 80)

    def state() -> dict[str, tuple[str, int]]:
        return {
            path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in run.path.iterdir()
        }

    before = state()
    os.utime(run.path, ns=(1, 1))
    index = RunIndex(run.path, tmp_path / "index")
    index.complete()
    group = index.group(index.page(SampleFilter(kept="discarded"), 1).groups[0].id)
    assert isinstance(group, DiscardedGroup)
    assert state() == before
    assert run.path.stat().st_mtime_ns == 1, "no file came or went"


def test_a_damaged_index_is_made_again_and_processes_share_one(
    run: RunFolder, tmp_path: Path
) -> None:
    fill(run, 80)
    assert RunIndex(run.path, tmp_path / "index").complete().num_samples == 80
    other = RunIndex(run.path, tmp_path / "index")
    assert other.state().num_samples == 80, "another process has read them already"
    (file,) = (tmp_path / "index").glob("*.sqlite")
    file.write_bytes(b"no database" * 1000)
    assert RunIndex(run.path, tmp_path / "index").complete().num_samples == 80


def test_an_index_that_is_damaged_while_it_is_used_is_made_again(
    run: RunFolder, index: RunIndex, tmp_path: Path
) -> None:
    fill(run, 400)
    index.complete()
    (file,) = (tmp_path / "index").glob("*.sqlite")
    with opened(file) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    content[4096 * 2 :] = b"x" * (len(content) - 4096 * 2)
    file.write_bytes(content)
    with pytest.raises(NotReady, match="was damaged"):
        index.page(SampleFilter(text="return"), 100)
    assert index.complete().num_samples == 400


def test_a_folder_that_cannot_be_written_is_replaced_by_the_users_cache(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "taken").write_text("a file")
    fill(run, 80)
    assert RunIndex(run.path, tmp_path / "taken").complete().num_samples == 80
    assert len(list((tmp_path / "cache" / "assay" / "browser").glob("a-*.sqlite"))) == 1


def test_an_update_ends_in_its_time_and_goes_on_later(run: RunFolder, index: RunIndex) -> None:
    fill(run, 800)
    state = index.update(0.0)
    assert 0 < state.num_samples < 800
    assert state.bytes_left > 0
    assert index.complete().num_samples == 800
