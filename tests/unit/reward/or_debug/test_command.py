"""The command `assay or-debug`: what it does not overwrite, and paths without a folder."""

from pathlib import Path

import pytest

from assay_reward.or_debug.dataset.tasks import save
from assay_shared.cli import main
from assay_shared.types import Role
from tests.support.or_debug.planted import make_or_task


def or_debug(*words: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["or-debug", *words])
    return ended.value.code


def test_demonstrations_overwrite_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, output = tmp_path / "tasks.jsonl", tmp_path / "shown.jsonl"
    save([make_or_task().model_copy(update={"role": Role.TRAIN})], tasks)
    words = ("demonstrate", str(tasks), "--output", str(output))
    assert or_debug(*words) == 0
    output.write_text("mine")

    assert or_debug(*words) == 2
    assert output.read_text() == "mine"
    assert "shown.jsonl exists (choose a new file)" in capsys.readouterr().err


def test_a_path_without_a_folder_is_told_with_the_folder_it_counts_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study = "{policies: [{name: a, kind: start, evaluation: r/no}, "
    study += "{name: b, kind: curriculum, evaluation: r/none}], final: b}"
    (tmp_path / "study.yaml").write_text(study)

    assert or_debug("report", "study.yaml", "--output", "out") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "r/no does not exist" in told
    assert f"paths count from {tmp_path}" in told
