"""A GRPO run under attack: bad rows, a kill, a damaged checkpoint, a second trainer, poison."""

import json
from pathlib import Path

import pytest
import redis

from assay_shared.local.launcher import Launcher
from assay_shared.runs.dead_letters import read_counts
from assay_shared.runs.queue import ROLLOUT_QUEUE
from assay_shared.runs.run_folder import RunFolder
from assay_shared.types import Role, Task
from assay_trainer.config import GeneratedSource
from assay_trainer.data.dataset import DatasetPurpose, open_dataset
from assay_trainer.learner import checkpoint
from assay_trainer.rollouts.rollout_log import read_rollouts
from tests.integration.conftest import Assay, demo_file, wait_for_event
from tests.support.runs import LOOKUP
from tests.unit.trainer.rollouts.test_tasks_poison import POISON


def tasks(purpose: DatasetPurpose, number: int) -> list[Task]:
    source = GeneratedSource(kind="generated", num_tasks=number, code=0, arithmetic=0)
    return open_dataset(source, purpose, None).tasks


def write_rows(file: Path, rows: list[Task], bad: dict[str, dict[str, object]]) -> str:
    """Write the rows, and broken copies of the first; return a source for the run file."""
    lines = [row.model_dump_json() for row in rows]
    first = rows[0].model_dump(mode="json")
    lines += [json.dumps(first | {"id": name} | changes) for name, changes in bad.items()]
    file.write_text("".join(line + "\n" for line in lines))
    return f"{{kind: jsonl, path: {file}}}"


@pytest.mark.timeout(600)
def test_an_attacked_run_finishes_and_says_what_happened(
    assay: Assay, mesh: Launcher, tmp_path: Path
) -> None:
    train = write_rows(
        tmp_path / "train.jsonl",
        tasks(DatasetPurpose.TRAIN, 100),
        {
            "long": {"prompt": "word " * 2000},
            "rubric": {"rubric": "qa.nonesuch"},
            "half": {"prompt": "half a \ud800 character"},
            "empty": {"prompt": " "},
        },
    )
    held_out = write_rows(
        tmp_path / "held_out.jsonl",
        [
            task.model_copy(update={"role": Role.TEST})
            for task in tasks(DatasetPurpose.EVALUATE, 12)
        ],
        {"long": {"prompt": "phrase " * 2000}},
    )
    settings = [one for one in LOOKUP if not one.startswith("data.")]
    settings += [f"data.train={train}", f"data.held_out={held_out}", "grpo.steps=8"]
    settings += ["sft.mistake_rate=0"]  # rows have none
    folder = RunFolder(tmp_path / "run")
    process = assay.start("train", demo_file(), *settings, "--folder", str(folder.path))
    wait_for_event(folder.path, "stage_started", 240, stage="data")
    second = assay.start("train", "--resume", str(folder.path))
    told = assay.finish(second, 120)
    assert second.returncode == 3
    assert f"belongs to process {process.pid}" in told
    wait_for_event(folder.path, "step", 240, step=3)
    process.kill()
    assay.finish(process)

    newest = checkpoint.whole(folder.checkpoints / "grpo")[-1]
    weights = newest / "__0_0.distcp"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with redis.Redis.from_url(mesh.environment["ASSAY_REDIS_URL"]) as client:
        before = sum(read_counts(client).values())
        for messages in POISON.values():
            client.lpush(ROLLOUT_QUEUE, *messages)
        workers = {name: pid for name, pid in mesh.processes.items() if "worker" in name}
        assay.run("train", "--resume", str(folder.path))
        num_poison = sum(map(len, POISON.values()))
        assert sum(read_counts(client).values()) - before == num_poison
    assert {name: mesh.processes[name] for name in workers} == workers, "no worker was restarted"

    facts = json.loads((folder.path / "report.json").read_text())
    named = {name: set(found) for name, found in facts["set_aside"].items()}
    assert named == {"training": {"long", "rubric", "half", "empty"}, "held-out": {"long"}}
    ((one),) = facts["checkpoints_refused"]
    assert one["reason"] == f"{newest.name}: {weights.name} is not what was written"
    assert facts["training"]["num_steps"] == 8
    assert {e["num_tasks"] for e in facts["evaluations"].values()} == {12}
    done_again = [group.step for group in read_rollouts(folder.rollouts) if group.superseded]
    assert set(done_again) >= {checkpoint.step_of(newest)}
    ends = [e.kind for e in folder.read_events() if e.kind.startswith("run_")]
    assert ends == ["run_failed", "run_finished"]
