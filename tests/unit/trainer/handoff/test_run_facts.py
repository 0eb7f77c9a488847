"""The facts of a run in a manifest: its origin, its steps, and the sets that it read."""

import json
from pathlib import Path

from assay_shared.settings.run_file import load_config
from assay_trainer.config import RunConfig
from assay_trainer.data.governance.manifest import ImportManifest
from assay_trainer.handoff.run_facts import run_facts
from assay_trainer.service.record import create_run

DEMO = Path(__file__).parents[4] / "services/trainer/assay_trainer/service/demo.yaml"


def make_set(folder: Path) -> Path:
    folder.mkdir()
    manifest = {
        "format": "gsm8k",
        "kind": "tasks",
        "domain": "math",
        "rubric": "math",
        "licence": "MIT",
        "source": "gsm8k",
        "split": "train",
        "roles": {"train": 3},
        "num_rows_read": 3,
        "count": 3,
        "file": "tasks.jsonl",
        "digest": "d" * 64,
        "prompt_hashes": "prompts.npz",
        "prompt_hashes_digest": "e" * 64,
        "files": [],
        "left_out": [],
    }
    ImportManifest.model_validate(manifest).write(folder)
    return folder


def test_a_run_tells_its_origin_its_steps_and_its_sets(tmp_path: Path) -> None:
    config = load_config(RunConfig, DEMO)
    run = create_run(tmp_path / "run", config)
    written = json.loads(run.config.read_text())
    written["config"]["data"]["train"] = {
        "kind": "imported",
        "path": str(make_set(tmp_path / "set")),
    }
    run.config.write_text(json.dumps(written))
    for kind, step in (("sft_step", 1), ("sft_step", 2), ("step", 7), ("other", 9)):
        run.record(kind, step=step)
    found = run_facts(run.path)
    assert (found.name, found.state) == ("run", "created")
    assert found.steps == {"sft": 2, "grpo": 7}
    assert found.git_commit == written["git_commit"]
    assert "torch" in found.packages
    (one,) = found.data
    assert (one.source, one.licence, one.count, one.digest) == ("gsm8k", "MIT", 3, "d" * 64)


def test_a_set_that_is_gone_is_left_out(tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", load_config(RunConfig, DEMO))
    assert run_facts(run.path).data == ()
