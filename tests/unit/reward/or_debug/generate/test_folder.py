import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from assay_reward.or_debug.dataset import benchmark, recheck
from assay_reward.or_debug.generate import folder
from assay_reward.or_debug.generate.cells import cells
from assay_reward.or_debug.models import instance, mps
from assay_shared.errors import DatasetError, InvalidInput
from tests.conftest import wait_until

SMALL = ("--per-cell", "3", "--difficulties", "easy", "--types", "B,D", "--seed", "2")


def assay(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "or-debug", *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=150,
    )


def files(at: Path) -> dict[str, bytes]:
    found = sorted(path for path in at.rglob("*") if path.is_file())
    return {str(path.relative_to(at)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generated") / "data"
    done = assay("generate", "--output", str(path), "--processes", "1", *SMALL, hash_seed="1")
    assert done.returncode == 0, done.stderr
    assert "6 instances" in done.stdout
    return path


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_any_process(generated: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    done = assay("generate", "--output", str(again), "--processes", "2", *SMALL, hash_seed="77")
    assert done.returncode == 0, done.stderr
    assert files(again) == files(generated)


def test_a_folder_holds_what_its_manifest_says(generated: Path) -> None:
    manifest = folder.Manifest.model_validate_json((generated / "manifest.json").read_text())
    assert (manifest.seed, manifest.per_cell, manifest.num_instances) == (2, 3, 6)
    assert manifest.confirmed_by == "scip"
    assert set(manifest.versions) == {"highspy", "pyscipopt"}
    assert [cell.name for cell in manifest.cells] == ["type_B_easy", "type_D_easy"]
    for cell in manifest.cells:
        path = generated / cell.name
        assert benchmark.digests_of(path) == cell.digests
        instances = instance.load(path / "dataset.json")
        assert len(instances) == cell.num_instances == 3
        for one in instances:
            assert mps.read(path / "models" / f"{one.id}.mps") == one.model
        assert len((path / "tasks.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow
def test_a_sound_folder_passes_and_a_changed_one_does_not(generated: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name, content in files(generated).items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(content)
    done = assay("check", str(copy), "--processes", "1")
    assert done.returncode == 0, done.stderr
    assert "type_D_easy" in done.stdout
    path = copy / "type_D_easy" / "dataset.json"
    data = json.loads(path.read_text())
    data["instances"][1]["original_objective"] += 5.0
    path.write_text(json.dumps(data))
    done = assay("check", str(copy), "--processes", "1", "--engine", "highs")
    assert done.returncode == 2
    assert "type_D_easy: D-easy-0001: is_restored" in done.stderr
    assert "the files differ from the digests in the manifest" in done.stderr


def test_a_mended_model_file_is_noticed(generated: Path) -> None:
    path = generated / "type_D_easy"
    one = instance.load(path / "dataset.json")[0]
    models = path / "models" / f"{one.id}.mps"
    before = models.read_bytes()
    mps.write(one.original(), models)
    found = recheck.recheck(generated, "highs", 1, lambda done: None)[1]
    models.write_bytes(before)
    assert (found.num_same_model, found.num_infeasible, found.num_restored) == (2, 2, 2)
    with pytest.raises(DatasetError, match=f"{one.id}: is_infeasible"):
        recheck.must_be_sound((found,))


@pytest.mark.rule("every cell of a benchmark is full, or nothing is made or measured")
def test_a_cell_that_cannot_be_filled_is_an_error_with_its_name_and_counts(tmp_path: Path) -> None:
    """Nothing is left out in silence: no data is better than data with an empty cell."""
    order = folder.GenerationOrder(cells()[:2], 3, 0, None, 8, num_processes=1, max_attempts=0)
    with pytest.raises(DatasetError, match="no instance 0 of type_A_easy in 0 attempts") as caught:
        folder.generate(tmp_path / "new", order, lambda cell, done: None)
    assert "type_A_easy: 0 of 3, type_A_medium: 0 of 3" in caught.value.message
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_no_process_outlives_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assay_shared.cli", "or-debug", "generate", "--processes", "2"]
    running = subprocess.Popen(
        [*command, "--output", str(tmp_path / "new")], stderr=subprocess.DEVNULL
    )
    parent = psutil.Process(running.pid)

    def workers() -> list[psutil.Process]:
        return [child for child in parent.children() if "spawn_main" in " ".join(child.cmdline())]

    wait_until(lambda: len(workers()) == 2, "two processes to start", timeout_s=60)
    started = workers()
    time.sleep(0.5)
    running.kill()
    running.wait()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []


@pytest.mark.slow
def test_a_folder_in_use_and_options_that_mean_nothing_are_refused(
    generated: Path, tmp_path: Path
) -> None:
    order = folder.GenerationOrder(cells()[:1], 1, 0, None, 8, 1)
    with pytest.raises(InvalidInput, match="not empty"):
        folder.generate(generated, order, lambda cell, done: None)
    for option, value, said in (
        ("--types", "A,E", "there is no E (there are A, B, C, D)"),
        ("--difficulties", "brutal", "there are easy, medium, hard"),
        ("--confirm", "cplex", "there is no cplex"),
    ):
        done = assay("generate", "--output", str(tmp_path / "new"), option, value)
        assert done.returncode == 2
        assert said in done.stderr
    with pytest.raises(DatasetError, match="no manifest"):
        benchmark.read_cells(tmp_path)
