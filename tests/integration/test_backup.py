"""A run is backed up in mid-step, lost, restored, and continues to its end."""

import shutil
from pathlib import Path

import pytest

from assay_shared.local.launcher import Launcher
from assay_shared.runs.run_folder import RunFolder
from tests.integration.conftest import Assay, demo_file, wait_for_event
from tests.support.runs import LOOKUP


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_put_back_from_a_backup_goes_on_to_its_end(
    assay: Assay, mesh: Launcher, tmp_path: Path
) -> None:
    runs, archive = tmp_path / "runs", tmp_path / "backup.tar"
    folder = runs / "run"
    process = assay.start("train", demo_file(), *LOOKUP, "--folder", str(folder))
    wait_for_event(folder, "step", timeout_s=400, meanwhile=mesh.watch, step=2)
    assay.run("backup", str(archive), "--runs", str(runs))
    process.kill()
    assay.finish(process)
    shutil.rmtree(runs)
    assay.run("restore", str(archive), "--runs", str(runs))
    assay.run("train", "--resume", str(folder))
    events = list(RunFolder(folder).read_events())
    assert RunFolder(folder).read_status().state == "finished"
    steps = [e.data["step"] for e in events if e.kind == "step"]
    assert sorted(set(steps)) == [1, 2, 3, 4]  # type: ignore[type-var]
    assert steps.count(1) == 1, "it resumed from its checkpoint"
    shown = assay.run("prune", str(runs))
    assert "freed" in shown
    assert (folder / "models" / "grpo").is_dir()
    assert len(list((folder / "checkpoints" / "grpo").glob("checkpoint-*"))) == 1
    assay.run("report", str(folder))
